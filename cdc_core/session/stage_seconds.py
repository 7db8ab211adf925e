"""Seconds by stage: where the time of a destination goes. See `contract.stages`."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable

from cdc_core.contract.stages import STAGES

_EVERY, _WINDOW = 5.0, 60.0  # seconds between two samples of the sums, and those that `last_minute` covers


class StageSeconds:
    """Safe for threads. `clock` is in seconds and only rises. It is read once a change of stage."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(STAGES, 0.0)
        self._present: dict[Hashable, tuple[str, float]] = {}  # the stage of each one, and since when
        self._samples = deque([(clock(), dict(self._sums))], maxlen=int(_WINDOW / _EVERY) + 2)

    def enter(self, who: Hashable, stage: str | None) -> None:
        """From now on `who` is in a stage, or in none. Nothing changes for one that is in it already."""
        with self._lock:
            now, before = self._clock(), self._present.get(who)
            if now - self._samples[-1][0] >= _EVERY:
                self._samples.append((now, self._totals(now)))
            if before is not None:
                if before[0] == stage:
                    return
                self._sums[before[0]] += now - before[1]
            if stage is not None:
                self._present[who] = stage, now
            elif before is not None:
                del self._present[who]

    def totals(self) -> dict[str, float]:
        """Since the destination started, what lasts included."""
        with self._lock:
            return self._totals(self._clock())

    def last_minute(self) -> dict[str, float]:
        """Of the last minute, to some seconds; of the time since the start if that is less."""
        with self._lock:
            now = self._clock()
            since, before = next((one for one in reversed(self._samples) if now - one[0] >= _WINDOW), self._samples[0])
            part = min(1.0, _WINDOW / (now - since)) if now > since else 1.0
            return {stage: (total - before[stage]) * part for stage, total in self._totals(now).items()}

    def _totals(self, now: float) -> dict[str, float]:
        sums = self._sums.copy()
        for stage, since in self._present.values():
            sums[stage] += now - since
        return sums
