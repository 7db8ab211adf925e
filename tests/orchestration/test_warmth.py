"""A run waits for the Spark of its stack."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestration import warmth


class Clock:
    """Time that passes while somebody sleeps. At `until` the mark goes."""

    def __init__(self, until: float, mark: Path) -> None:
        self.now, self.until, self.mark = 100.0, until, mark

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.until:
            self.mark.unlink(missing_ok=True)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "scratch" / "warming.mark"
    monkeypatch.setenv(warmth.VARIABLE, str(path))
    return path


def waited(clock: Clock) -> float:
    return warmth.wait_until_warm(clock, clock.sleep)


def test_it_waits_for_the_end_and_no_longer_than_its_patience(mark: Path) -> None:
    """The mark is there as long as the warm-up."""
    with warmth.marked(mark):
        assert warmth.is_warming()
        assert waited(Clock(103.0, mark)) == pytest.approx(3.0, abs=0.2)
        mark.touch()
        assert waited(Clock(1000.0, mark)) == pytest.approx(warmth.PATIENCE, abs=0.2)
    assert not mark.exists()


def test_a_mark_goes_with_an_error_too(mark: Path) -> None:
    """Nobody waits for a warm-up that failed."""
    with pytest.raises(RuntimeError), warmth.marked(mark):
        raise RuntimeError
    assert not warmth.is_warming()


def test_a_mark_that_was_left_holds_up_nobody(mark: Path) -> None:
    """Of a command that was killed."""
    with warmth.marked(mark):
        old = time.time() - 1000
        os.utime(mark, (old, old))
        assert waited(Clock(1000.0, mark)) == 0


def test_without_a_stack_there_is_no_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a Dagster of the user's own."""
    monkeypatch.delenv(warmth.VARIABLE, raising=False)
    assert waited(Clock(0.0, tmp_path / "none")) == 0
