"""Whether the process of a run still lives, where Dagster does not look.

Dagster's default launcher leaves that to the code server that started the process. When both end at once (a power cut,
a restarted container), the run counts as started until its maximum time is over, and nothing is drained meanwhile. So a
run notes its process in a tag. Only processes of this host are judged.
"""

from __future__ import annotations

import os
import platform

import dagster as dg
import psutil

_TAG = "cdc/process"
_SAME_START = 5.0  # seconds by which a process's start may seem to move when the clock is set
_HINT = "The machine, container or code server was restarted. What the run held is given back and claimed again."


def tag(run_id: str) -> dict[str, str]:
    """The tag that names this process as the run's: run, host, pid, start. It names the run because a re-executed run
    inherits tags."""
    return {_TAG: f"{run_id} {platform.node()} {os.getpid()} {psutil.Process().create_time():.0f}"}


def note(context: dg.OpExecutionContext) -> None:
    """Notes this process as that of the run."""
    context.instance.add_run_tags(context.run_id, tag(context.run_id))


def fail_gone(instance: dg.DagsterInstance, tags: dict[str, str] | None = None) -> list[str]:
    """Marks runs with these tags whose process is gone as failed, and returns their ids. Does nothing if Dagster's
    launcher looks itself."""
    if instance.run_launcher.supports_check_run_worker_health:
        return []
    statuses = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    gone = [run for run in instance.get_runs(dg.RunsFilter(tags=tags, statuses=statuses)) if is_gone(run)]
    for run in gone:
        instance.report_run_failed(run, f"The run's process is gone ({run.tags[_TAG]}). {_HINT}")
    return [run.run_id for run in gone]


def is_gone(run: dg.DagsterRun) -> bool:
    """Whether the run's process is known, ran on this host, and has ended."""
    noted = run.tags.get(_TAG, "").split(" ")
    if len(noted) != 4 or noted[:2] != [run.run_id, platform.node()]:
        return False
    pid, started = int(noted[2]), float(noted[3])
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or abs(process.create_time() - started) > _SAME_START
    except psutil.NoSuchProcess:
        return True
