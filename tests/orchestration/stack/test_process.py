"""Supervised child processes, and the guard that ends orphans."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from orchestration.stack.process import Process, ProcessError, group_runs
from tests.support.waiting import until

SLEEPER = [sys.executable, "-c", "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"]


def test_a_process_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """`stop` leaves nobody of the group behind."""
    process = Process("sleeper", SLEEPER, log=tmp_path / "log", ready=lambda: True).start()
    group = process.pid
    assert group is not None
    process.stop()

    assert not process.running
    assert _gone_within(group, 60.0)


def test_a_process_that_ends_early_shows_its_log(tmp_path: Path) -> None:
    """The error carries the child's own words and the log's place."""
    command = [sys.executable, "-c", "raise SystemExit('no luck')"]
    with pytest.raises(ProcessError, match="no luck") as caught:
        Process("loser", command, log=tmp_path / "log", ready=lambda: False).start()

    assert caught.value.place == str(tmp_path / "log")


def test_a_killed_parent_leaves_no_orphan(tmp_path: Path) -> None:
    """The guard ends the children of a parent that had no time to."""
    script = f"""
import sys, time
from pathlib import Path
from orchestration.stack.process import Process
child = Process("c", {SLEEPER!r}, log=Path({str(tmp_path / "log")!r}), ready=lambda: True).start()
print(child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()

    assert _gone_within(group, 60.0)


def test_a_variable_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has our environment, less what is None."""
    monkeypatch.setenv("SLUICE_CHILD_KEPT", "a")
    monkeypatch.setenv("SLUICE_CHILD_DROPPED", "b")
    code = "import os, time; print(sorted(k for k in os.environ if 'SLUICE_CHILD' in k), flush=True); time.sleep(600)"
    log = tmp_path / "log"
    without: dict[str, str | None] = {"SLUICE_CHILD_DROPPED": None}
    command = [sys.executable, "-c", code]
    with Process("child", command, log=log, ready=lambda: "]" in log.read_text(), environment=without) as process:
        assert process.tail() == "['SLUICE_CHILD_KEPT']"


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    """A probe that raises ends the child; frames of a Java stack trace are not among the last lines."""
    pids: list[int | None] = []
    command = ["sh", "-c", "printf 'Exception: no luck\\n\\tat a.b(C.java:1)\\n'; exec sleep 600"]
    process = Process("loser", command, log=tmp_path / "log", ready=lambda: pids.append(process.pid) or 1 / 0 > 1)
    with pytest.raises(ZeroDivisionError):
        process.start()
    process = Process("silent", command, log=tmp_path / "log", ready=lambda: False, timeout=3)
    with pytest.raises(ProcessError, match="was not ready") as caught:
        process.start()

    assert not process.running
    assert _gone_within(pids[0] or 0, 60.0)
    assert "no luck" in caught.value.message
    assert "C.java" not in caught.value.message


def _gone_within(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not group_runs(group):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to another parent than the first process")
def test_an_orphan_that_nobody_reaps_is_not_waited_for(tmp_path: Path) -> None:
    """It stays in its group as a zombie: its new parent, here as in a container without an init, does not reap it."""
    adopt, adopts = 36, ctypes.CDLL(None).prctl  # PR_SET_CHILD_SUBREAPER
    assert adopts(adopt, 1, 0, 0, 0) == 0
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    one = Process("one", [sys.executable, "-c", code], log=tmp_path / "one", ready=lambda: True).start()
    try:
        leader = psutil.Process(one.pid)
        until(leader.children)
        (orphan,) = leader.children()
        began = time.monotonic()
        one.kill()
        assert time.monotonic() - began < 5.0
        assert not one.running
        assert orphan.status() == psutil.STATUS_ZOMBIE
    finally:
        adopts(adopt, 0, 0, 0, 0)
    os.waitpid(orphan.pid, 0)
