"""Runs whose process is gone: real processes and records of Dagster."""

from __future__ import annotations

import platform
import subprocess
import sys

import dagster as dg
import psutil
import pytest

from orchestration import processes
from tests.support import dagster_runs
from tests.support.dagster_runs import SHOP


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


@pytest.fixture
def ended() -> str:
    """A process that lived on this host: host, pid, start."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = psutil.Process(child.pid).create_time()
        assert child.stdin is not None
        child.stdin.write(b"\n")
    return f"{platform.node()} {child.pid} {started:.0f}"


def a_run(instance: dg.DagsterInstance, process: str | None, status: str = "STARTED") -> str:
    run_id = dagster_runs.a_run(instance, dg.DagsterRunStatus(status))
    if process:
        instance.add_run_tags(run_id, {"cdc/process": f"{run_id} {process}"})
    return run_id


def this_process() -> str:
    return processes.tag("run")["cdc/process"].removeprefix("run ")


def test_a_run_without_its_process_fails(instance: dg.DagsterInstance, ended: str) -> None:
    """The run would count as started otherwise. The event says why, and what becomes of its claims."""
    run_id = a_run(instance, ended)

    assert processes.fail_gone(instance, SHOP) == [run_id]

    run = instance.get_run_by_id(run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.FAILURE
    event = instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_FAILURE)[0].dagster_event
    assert event is not None
    assert "process is gone" in (event.message or "")
    assert processes.fail_gone(instance, SHOP) == []


def test_other_runs_are_left_alone(instance: dg.DagsterInstance, ended: str) -> None:
    """A live process, one of another host, the parent of the run, or none yet; ended runs; another destination."""
    a_run(instance, this_process())
    a_run(instance, ended.replace(platform.node(), "elsewhere"))
    inherited = a_run(instance, None)
    instance.add_run_tags(inherited, {"cdc/process": f"its-parent {ended}"})
    a_run(instance, None)
    a_run(instance, ended, status="SUCCESS")
    a_run(instance, ended)

    assert processes.fail_gone(instance, {"cdc/destination": "other"}) == []
    assert len(processes.fail_gone(instance, SHOP)) == 1


def test_a_pid_that_was_given_again_is_another_process(instance: dg.DagsterInstance) -> None:
    """After a reboot the number may be of another process; the start time tells them apart."""
    host, pid, started = this_process().rsplit(" ", 2)
    run_id = a_run(instance, f"{host} {pid} {float(started) - 60:.0f}")

    assert processes.fail_gone(instance, SHOP) == [run_id]
