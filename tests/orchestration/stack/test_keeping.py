"""Processes that are kept running."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from orchestration.stack import keeping as module
from orchestration.stack.keeping import Keeping
from orchestration.stack.process import Process, ProcessError, group_runs
from tests.support.waiting import until

LONG = [sys.executable, "-c", "import time; time.sleep(600)"]


class Lines:
    """A progress that keeps its lines."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def say(self, line: str) -> None:
        self.told.append(line)

    def step(self, _name: str) -> ExitStack:
        return ExitStack()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.1)


def sleeper(folder: Path, name: str) -> Process:
    return Process(name, LONG, log=folder / name, ready=lambda: True)


def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    """Each time, later after each short life; the others go on. What the dead leader left of its group is ended."""
    lines, code = Lines(), "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    one = Process("one", [sys.executable, "-c", code], log=tmp_path / "one", ready=lambda: True)
    two = sleeper(tmp_path, "two")
    with ExitStack() as parts:
        kept = Keeping(parts, lines)  # type: ignore[arg-type]
        kept.launch("both", one, two)
        other = two.pid
        for number in (signal.SIGKILL, signal.SIGTERM):
            before = one.pid or 0
            os.kill(before, number)
            until(lambda before=before: one.pid not in (None, before), 60)
            until(lambda: "runs again" in lines.told[-1], 60)
            until(lambda before=before: not group_runs(before), 10)
        kept.check()
        assert two.pid == other
    assert not one.running
    assert not two.running
    first, _, second, _ = lines.told
    assert "one was killed by SIGKILL; it starts again in 0 s" in first
    assert "one was killed by SIGTERM" in second


def test_a_process_that_dies_while_it_starts_is_started_again(tmp_path: Path) -> None:
    """Its first start counts too."""
    mark = tmp_path / "mark"
    code = f"import pathlib, time, sys; p = pathlib.Path({str(mark)!r})\nif not p.exists(): p.touch(); sys.exit(3)\n"
    lines = Lines()
    child = Process("child", [sys.executable, "-c", f"{code}time.sleep(600)"], log=tmp_path / "log", ready=lambda: True)
    child._ready = lambda: child.running and mark.exists() and mark.stat().st_size == 0 and _old(mark)
    with ExitStack() as parts:
        Keeping(parts, lines).launch("a child", child)  # type: ignore[arg-type]
        assert child.running
    assert "ended with exit code 3 during its start" in lines.told[0]
    assert "child runs again" in lines.told[1]


def _old(file: Path) -> bool:
    """Whether the first of two children, which made the file, has had the time to end."""
    return time.time() - file.stat().st_mtime > 0.5


def test_one_that_cannot_be_started_ends_all_with_its_own_error(tmp_path: Path) -> None:
    """Also while another one starts, which suffers from it; and all are stopped."""
    fails = tmp_path / "fails"
    code = f"import pathlib, time, sys\nif pathlib.Path({str(fails)!r}).exists(): sys.exit('no luck')\ntime.sleep(600)"
    first = Process("first", [sys.executable, "-c", code], log=tmp_path / "first", ready=lambda: first.running)
    first._ready = lambda: first.running and not fails.exists()

    def never() -> bool:
        """The second waits for the first, which is gone for good."""
        if not fails.exists():
            fails.touch()
            os.kill(first.pid or 0, signal.SIGKILL)
        return False

    second = Process("second", LONG, log=tmp_path / "second", ready=never)
    with ExitStack() as parts:
        kept = Keeping(parts, Lines())  # type: ignore[arg-type]
        kept.launch("the first", first)
        with pytest.raises(ProcessError, match="first ended with exit code 1:\nno luck"):
            kept.launch("the second", second)
    assert not first.running
    assert not second.running


def test_one_is_restarted_by_hand(tmp_path: Path) -> None:
    """At once, and without a word."""
    lines, one = Lines(), sleeper(tmp_path, "one")
    with ExitStack() as parts:
        kept = Keeping(parts, lines)  # type: ignore[arg-type]
        kept.launch("one", one)
        before = one.pid
        kept.restart(one)
        until(lambda: one.pid not in (None, before), 60)
    assert lines.told == []
