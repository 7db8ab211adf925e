"""Points on the way of a batch at which a run can be held: a protocol in files between a test and the process of the
run.

`armed` holds a point and a number. A run that comes to this point writes `reached-{number}` with its pid, and goes on
when `armed` changes or is removed. A run that nobody releases goes on by itself after a while.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "SLUICE_FAULT_POINTS"
CLAIMED, ONE_COMMITTED, COMMITTED, NOTED, ACKED = "claimed", "one_committed", "committed", "noted", "acked"
ONE_MADE = "one_made"  # by its statement: the claim's other new tables are not there yet
ONE_ALTERED = "one_altered"  # the claim's other altered tables are as before, and no row is there
# COMMITTED is before the ledger has the batch, NOTED after; neither is acked
_LONGEST_HOLD = 300.0


@dataclass(slots=True)
class Points:
    """`directory` is shared by both sides."""

    directory: Path
    number: int = 0

    # -- the test's side

    def arm(self, point: str) -> None:
        """Holds the next run that comes to `point`, and releases the one that is held."""
        self.number += 1
        _write(self.directory / "armed", f"{point} {self.number}")

    def disarm(self) -> None:
        (self.directory / "armed").unlink(missing_ok=True)

    def reached(self) -> int | None:
        """The pid of the run that is held at the point armed last."""
        file = self.directory / f"reached-{self.number}"
        return int(file.read_text()) if file.is_file() else None

    def worker(self) -> int | None:
        """The pid of the process that worked on a batch last."""
        file = self.directory / "worker"
        return int(file.read_text()) if file.is_file() else None

    # -- the run's side

    def at_work(self) -> None:
        _write(self.directory / "worker", str(os.getpid()))

    def awaits(self, point: str) -> bool:
        return (self._armed() or "").startswith(f"{point} ")

    def hold(self, point: str) -> None:
        """Waits here while `point` is armed; returns at once otherwise."""
        armed = self._armed()
        if armed is None or armed.split()[0] != point:
            return
        _write(self.directory / f"reached-{armed.split()[1]}", str(os.getpid()))
        deadline = time.monotonic() + _LONGEST_HOLD
        while self._armed() == armed and time.monotonic() < deadline:
            time.sleep(0.02)

    def _armed(self) -> str | None:
        try:
            return (self.directory / "armed").read_text()
        except FileNotFoundError:
            return None


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(file)
