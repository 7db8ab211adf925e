"""Seconds by stage: where the time of a destination goes. See `contract.stages`."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable

from cdc_core.contract.stages import STAGES

_EVERY, _WINDOW = 5.0, 60.0  # seconds between two samples of the sums, and those that `last_minute` covers
_NOWHERE: tuple[str | None, float] = None, 0.0


class StageSeconds:
    """Safe for threads. `clock` is in seconds and only rises."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(STAGES, 0.0)
        self._present: dict[Hashable, tuple[str, float]] = {}  # the stage of each one, and since when
        now = clock()
        self._samples = deque([(now, self._sums.copy())], maxlen=int(_WINDOW / _EVERY) + 2)
        self._next_sample = now + _EVERY
        self._told = self._sums.copy()  # by `totals`; a stage may be left at a moment before the last call

    def enter(self, who: Hashable, stage: str | None, at: float | None = None) -> None:
        """From now on, or from the moment `at` that was read a little before, `who` is in a stage, or in none. Nothing
        changes for one that is in it already."""
        with self._lock:
            now = self._clock() if at is None else at
            before, since = self._present.get(who, _NOWHERE)
            if now >= self._next_sample:
                self._samples.append((now, self._totals(now)))
                self._next_sample = now + _EVERY
            if before == stage:
                return
            if before is not None:
                self._sums[before] += now - since
            if stage is None:
                self._present.pop(who, None)
            else:
                self._present[who] = stage, now

    def totals(self) -> dict[str, float]:
        """Since the destination started, what lasts included. No sum ever falls: a scraper would see a restart."""
        with self._lock:
            totals = self._totals(self._clock())
            self._told = {stage: max(seconds, self._told[stage]) for stage, seconds in totals.items()}
            return self._told.copy()

    def last_minute(self) -> dict[str, float]:
        """Of the last minute, to some seconds; of the time since the start if that is less."""
        with self._lock:
            now = self._clock()
            since, before = next((one for one in reversed(self._samples) if now - one[0] >= _WINDOW), self._samples[0])
            part = min(1.0, _WINDOW / (now - since)) if now > since else 1.0
            return {stage: max(0.0, total - before[stage]) * part for stage, total in self._totals(now).items()}

    def _totals(self, now: float) -> dict[str, float]:
        sums = self._sums.copy()
        for stage, since in self._present.values():
            sums[stage] += now - since
        return sums
