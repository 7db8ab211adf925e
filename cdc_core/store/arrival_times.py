"""When the events of the log arrived. Bounded: where many wait, the times of the older ones are less exact.

Pure: no lock and no clock.
"""

from __future__ import annotations

from bisect import bisect_right

_MOST = 4096  # blocks

Arrival = tuple[float, float, float]  # when a block was received, its events had been read, and they were in the store


class ArrivalTimes:
    """A place is a sequence, as in the log."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._begin = 0
        self._ends: list[int] = []  # of the blocks; events after one end, up to the next one, arrived together
        self._times: list[Arrival] = []

    def note(self, begin: int, end: int, arrival: Arrival) -> None:
        """The events of [begin, end) arrived."""
        while self._ends and self._ends[-1] > begin:  # they were dropped, and come again
            self._cut(-1, None)
        if end <= begin:
            return
        if not self._ends:
            self._begin = begin
        self._ends.append(end)
        self._times.append(arrival)

    @property
    def too_many(self) -> bool:
        return len(self._ends) > self._most

    def shorten(self, acked: int) -> None:
        """To half as many at most. Nobody asks for events before `acked`; of the others two blocks share the times of
        the later one."""
        self._cut(0, bisect_right(self._ends, acked))
        if len(self._ends) > self._most // 2:
            del self._ends[:-1:2], self._times[:-1:2]

    def at(self, sequence: int) -> Arrival | None:
        """When an event arrived; None if that is not known."""
        found = bisect_right(self._ends, sequence)
        return self._times[found] if self._begin <= sequence and found < len(self._ends) else None

    def _cut(self, low: int, high: int | None) -> None:
        del self._ends[low:high], self._times[low:high]
