"""Whether the process of a run still lives, where Dagster itself does not look.

Dagster's default launcher leaves that to the code server which started the process. When both end at once (a power
cut, a restarted container) the run would count as started until its longest time is over, and nothing would be drained
meanwhile. So a run notes its process in a tag. Only processes of this very host are judged.
"""

from __future__ import annotations

import os
import platform

import dagster as dg
import psutil

_TAG = "cdc/process"
_SAME_START = 5.0  # seconds by which a process's start may be told differently after the clock was set
_HINT = "Machine, container or code server was restarted; what the run held is given back and claimed again."


def tag(run_id: str) -> dict[str, str]:
    """The tag that names a run's process, this one: run, host, pid, start. A re-executed run inherits tags, so the run
    is named too."""
    return {_TAG: f"{run_id} {platform.node()} {os.getpid()} {psutil.Process().create_time():.0f}"}


def fail_gone(instance: dg.DagsterInstance, tags: dict[str, str]) -> list[str]:
    """Has runs end as failed whose process is gone. Their ids. Left to Dagster where its launcher can tell."""
    if instance.run_launcher.supports_check_run_worker_health:
        return []
    statuses = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    gone = [run for run in instance.get_runs(dg.RunsFilter(tags=tags, statuses=statuses)) if is_gone(run)]
    for run in gone:
        instance.report_run_failed(run, f"The run's process is gone ({run.tags[_TAG]}). {_HINT}")
    return [run.run_id for run in gone]


def is_gone(run: dg.DagsterRun) -> bool:
    """Whether its process is known, was of this host, and lives no more."""
    noted = run.tags.get(_TAG, "").split(" ")
    if len(noted) != 4 or noted[:2] != [run.run_id, platform.node()]:
        return False
    pid, started = int(noted[2]), float(noted[3])
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or abs(process.create_time() - started) > _SAME_START
    except psutil.NoSuchProcess:
        return True
