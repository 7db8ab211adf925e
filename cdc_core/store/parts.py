"""The segments of the log in order: the first of them on disk, where there is a store on disk, the others in memory.

Pure but for what a segment on disk reads of its volume.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

import numpy as np

from cdc_core.position import EntryPosition
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.mark import Mark
from cdc_core.store.segment import Segment, merge, mergeable

Part = Segment | StoredSegment

MERGE_BYTES = 256 * 1024
_WRITTEN = 4  # times as many bytes are one record on disk
_MANY = 16  # small segments in memory that wait for others to be merged with


class RingParts:
    """`all` of them; the first `stored` are on disk."""

    def __init__(self, merge_bytes: int = MERGE_BYTES) -> None:
        self.all: list[Part] = []
        self.stored = 0
        self._merge_bytes = merge_bytes

    def copy(self) -> RingParts:
        made = RingParts(self._merge_bytes)
        made.all, made.stored = list(self.all), self.stored
        return made

    @property
    def begin(self) -> Mark | None:
        """None without any."""
        return self.all[0].first if self.all else None

    @property
    def memory(self) -> Mark | None:
        """Where those begin that are in memory; None without any."""
        return self.all[self.stored].first if self.stored < len(self.all) else None

    @property
    def start(self) -> EntryPosition | None:
        """Where the first event begins."""
        return self.all[0].start if self.all else None

    # -- what goes in and out

    def append(self, segment: Segment) -> None:
        """Adds one, and merges small ones at the end."""
        parts = self.all
        parts.append(segment)
        while len(parts) > self.stored + 1:
            left, right = parts[-2:]
            if not (isinstance(left, Segment) and isinstance(right, Segment)):
                return
            if not mergeable(left, right, self._merge_bytes):
                return
            parts[-2:] = [merge(left, right)]

    def free(self, sequence: int) -> bool:
        """Removes those that end at or before a sequence. Whether there were any."""
        gone = 0
        while gone < len(self.all) and self.all[gone].end <= sequence:
            gone += 1
        del self.all[:gone]
        self.stored = max(0, self.stored - gone)
        return gone > 0

    def truncate(self, to: Mark) -> None:
        """Removes all events from a mark on. What is left of a segment is in memory."""
        while self.all and self.all[-1].first >= to:
            self.all.pop()
        self.stored = min(self.stored, len(self.all))
        if self.all and self.all[-1].end > to.sequence:
            self.all[-1] = self.all[-1].until(to.sequence)
            self.stored = min(self.stored, len(self.all) - 1)

    def restore(self, parts: Sequence[Part]) -> None:
        """Takes over what an earlier process left on disk."""
        self.all = list(parts)
        self.stored = sum(isinstance(part, StoredSegment) for part in parts)

    # -- from memory to disk

    def unwritten(self, *, at_once: bool) -> list[Segment]:
        """The next ones to be written to disk, as one record; unless `at_once`, only when they are enough for one, and
        no later block will be merged into them."""
        run: list[Segment] = []
        nbytes = 0
        for part in islice(self.all, self.stored, None):
            assert isinstance(part, Segment)
            nbytes += part.block.nbytes
            if run and (nbytes > _WRITTEN * self._merge_bytes or part.block.journal_name != run[0].block.journal_name):
                return run if at_once or self._complete(run[-1]) else run[:-1]
            run.append(part)
        return run if at_once else run[:-1] if len(run) > _MANY else []

    def _complete(self, segment: Segment) -> bool:
        """With half as much after it, it is not `mergeable`."""
        return 3 * segment.block.nbytes > 2 * self._merge_bytes

    def keep(self, run: Sequence[Segment], stored: StoredSegment) -> bool:
        """Replaces segments by what was written of them. False when they are not the next ones to be written any
        more."""
        low, high = self.stored, self.stored + len(run)
        if len(self.all) < high or any(one is not part for one, part in zip(run, self.all[low:high], strict=True)):
            return False
        self.all[low:high] = [stored]
        self.stored += 1
        return True

    def unchecked(self, low: int, high: int) -> list[StoredSegment]:
        """Those on disk within [low, high) whose bytes nobody has compared with their checksums yet."""
        if not self.stored:
            return []
        return [one for one in self.between(low, high) if isinstance(one, StoredSegment) and not one.checked]

    # -- searches

    def between(self, start: int, end: int) -> Iterator[Part]:
        """Those with events within [start, end)."""
        for at in range(self.number(start), len(self.all)):
            if self.all[at].first.sequence >= end:
                return
            yield self.all[at]

    def number(self, sequence: int) -> int:
        """The place in `all` of the one that has an event, or ends before it."""
        return max(bisect_right(self.all, sequence, key=lambda s: s.first.sequence) - 1, 0)

    def number_of_rows(self, rows: int) -> int:
        """The place in `all` of the last one with at most `rows` rows before it."""
        return bisect_right(self.all, rows, key=lambda s: s.first.rows) - 1

    def sequence_of_bytes(self, nbytes: int) -> int:
        """The end of the first ones that hold all bytes of the log up to `nbytes`."""
        at = bisect_left(self.all, nbytes, key=lambda s: s.first.nbytes) - 1
        return self.all[at].end if at >= 0 else 0

    def sequence_of_time(self, time: float) -> int:
        """The end of the first ones on disk whose last event is older than `time`, in seconds since the epoch."""
        stored = (part for part in self.all[: self.stored] if isinstance(part, StoredSegment))
        return max((part.end for part in takewhile(lambda part: part.extent.time < time, stored)), default=0)

    def sequence_behind(self, position: EntryPosition) -> int | None:
        """The first event that ends beyond a position, as a sequence; None without one."""
        first = max(bisect_right(self.all, position, key=lambda s: s.start) - 1, 0)
        for part in self.all[first:]:
            block = part.block
            same = EntryPosition(block.journal_name, position.position) == position
            event = int(np.searchsorted(block.index["end"], position.position, side="right")) if same else 0
            if event < part.events:
                return part.first.sequence + event
        return None
