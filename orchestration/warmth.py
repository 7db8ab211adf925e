"""The mark of a Spark that is being warmed: a file, which the process of a run finds by a variable of its environment.

A run that merges waits for the warm-up's end before it claims its first batch. Both would slow down each other, and the
first batch would be through no sooner. No wait is for ever: a mark that is older than any warm-up is one that a killed
command left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "SLUICE_WARMING"
PATIENCE = 25.0  # seconds that a run waits
_OLDEST = 120.0
_LOOK_SECONDS = 0.1


@contextmanager
def marked(mark: Path) -> Iterator[None]:
    """Spark is being warmed while the block runs."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def is_warming(now: float | None = None) -> bool:
    """Whether the Spark of this process's stack is being warmed."""
    name = os.environ.get(VARIABLE)
    try:
        written = Path(name).stat().st_mtime if name else 0.0
    except OSError:
        return False
    return (time.time() if now is None else now) - written < _OLDEST


def wait_until_warm(clock: Callable[[], float], sleep: Callable[[float], None]) -> float:
    """The seconds that it took, at most `PATIENCE`; 0 for a Spark that is not being warmed."""
    began, waited = clock(), 0.0
    while is_warming() and waited < PATIENCE:
        sleep(_LOOK_SECONDS)
        waited = clock() - began
    return waited
