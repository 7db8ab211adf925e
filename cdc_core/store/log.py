"""The log: the annotated blocks that the ring holds, in order, and the searches over them.

Pure: no lock, no clock, and no Python object per event. A place in the log is a sequence: the number of events before
it since the log began. Searches read the indexes of segments on disk by memory map. Knows no clients and no capacity.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain

import numpy as np

from cdc_core.binlog.block import Block, BlockSlice, Kind
from cdc_core.errors import RangeGone
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.store.mark import Mark
from cdc_core.store.parts import MERGE_BYTES, Part, RingParts
from cdc_core.store.segment import Segment, segment


class Log:
    """From `begin` to `end`. The mutable state is the segments, and how far the events and transactions in them reach.

    `last_position` is where the last event ends, `last_commit` where the last transaction ends, `committed` the mark
    there; they stay when the segments are freed. `transactions` counts the transaction ends since the log began.
    """

    def __init__(self, merge_bytes: int = MERGE_BYTES) -> None:
        self.end = Mark()
        self.committed = Mark()
        self.last_position: EntryPosition | None = None
        self.last_commit: EntryPosition | None = None
        self.transactions = 0
        self.parts = RingParts(merge_bytes)

    @property
    def begin(self) -> Mark:
        return self.parts.begin or self.end

    @property
    def nbytes(self) -> int:
        return self.end.nbytes - self.begin.nbytes

    @property
    def events(self) -> int:
        return self.end.sequence - self.begin.sequence

    def as_it_is(self) -> Log:
        """A copy for searches outside of the lock. The blocks are the same."""
        made = copy(self)
        made.parts = self.parts.copy()
        return made

    # -- what goes in and out

    def append(self, block: Block) -> Segment:
        """Adds a block with at least one event. The segment that holds it."""
        new = segment(block, self.end)
        self.parts.append(new)
        self.end = new.at(new.end)
        self.last_position = new.position(new.end)
        if len(new.commits):
            self.transactions += len(new.commits)
            self.committed = new.at(new.first.sequence + int(new.commits[-1]))
            self.last_commit = new.position(self.committed.sequence)
        return new

    def free(self, sequence: int) -> bool:
        """Removes the segments that end at or before a sequence. Whether there were any."""
        return self.parts.free(sequence)

    def truncate(self, to: Mark) -> None:
        """Removes all events from a mark on, which is not before the last commit."""
        self.last_position = self.reached(to)
        self.parts.truncate(to)
        self.end = to

    def restore(self, parts: Sequence[Part]) -> None:
        """Holds, from now on, what an earlier process left on disk, up to a transaction end; or nothing, from the same
        sequence on."""
        self.parts.restore(parts)
        self.end = self.committed = parts[-1].at(parts[-1].end) if parts else self.end
        self.last_position = self.last_commit = parts[-1].position(parts[-1].end) if parts else None

    # -- searches

    def slices(self, start: int, end: int) -> list[BlockSlice]:
        """The parts of blocks between two sequences. Raises RangeGone when some of them were freed."""
        if start < self.begin.sequence or end > self.end.sequence:
            raise RangeGone(
                "the range is no longer in the store", place=f"events {start} to {end}", hint="Claim again."
            )
        return [
            BlockSlice(s.block, max(start - s.first.sequence, 0), min(end - s.first.sequence, s.events))
            for s in self.parts.between(start, end)
        ]

    def position(self, sequence: int) -> EntryPosition:
        """Where the event just before `sequence` ends."""
        return self.parts.all[self.parts.number(sequence - 1)].position(sequence)

    def reached(self, mark: Mark) -> EntryPosition:
        """Where the event just before a mark ends, though that event may be freed."""
        assert self.last_position is not None
        if mark == self.end:
            return self.last_position
        if mark == self.committed and self.last_commit is not None:
            return self.last_commit
        if mark > self.begin:
            return self.position(mark.sequence)
        if mark == self.begin and (start := self.parts.start) is not None:
            return start
        return EntryPosition(self.last_position.journal_name, 0)  # of the first transaction, which has not ended

    def at(self, sequence: int) -> Mark:
        return self.parts.all[self.parts.number(sequence)].at(sequence)

    def sequence_of_rows(self, rows: int) -> int:
        """The last sequence with at most `rows` rows before it."""
        owner = self.parts.all[self.parts.number_of_rows(rows)]
        return owner.first.sequence + int(np.searchsorted(owner.rows, rows - owner.first.rows, side="right")) - 1

    def sequence_of_bytes(self, nbytes: int) -> int:
        """The last sequence with at most `nbytes` bytes before it."""
        parts = self.parts.all
        owner = parts[max(bisect_right(parts, nbytes, key=lambda part: part.first.nbytes) - 1, 0)]
        places = range(owner.first.sequence, owner.end + 1)
        return places[max(bisect_right(places, nbytes, key=lambda place: owner.at(place).nbytes) - 1, 0)]

    def whole(self, sequence: int) -> tuple[int, int]:
        """The nearest sequences at or around `sequence` where a range may end; see `Segment.whole`."""
        return self.parts.all[self.parts.number(sequence)].whole(sequence)

    def last_commit_within(self, low: int, high: int) -> int | None:
        """The last transaction end within (low, high], as a sequence."""
        for at in range(self.parts.number(high), -1, -1):
            owner = self.parts.all[at]
            found = owner.last_commit_within(low, high)
            if found is not None or owner.first.sequence <= low:
                return found
        return None

    def first_commit_after(self, low: int) -> int | None:
        """The first transaction end after `low`, as a sequence."""
        found = (owner.first_commit_after(low) for owner in self.parts.between(low, self.end.sequence))
        return next((commit for commit in found if commit is not None), None)

    def commits_within(self, low: int, high: int) -> int:
        """The number of transaction ends within (low, high]."""
        return sum(owner.commits_within(low, high) for owner in self.parts.between(low, high))

    def schema_change(self, low: int, high: int, table_of: Callable[[int], TableSchema]) -> int:
        """The first rows event within [low, high) whose table had another version before in it; `high` without one."""
        versions: dict[str, str] = {}
        seen: set[int] = set()
        for owner in self.parts.between(low, high):
            for sequence, schema_id in owner.schemas(low, high, seen):
                if schema_id in seen:
                    continue
                seen.add(schema_id)
                table = table_of(schema_id)
                if versions.setdefault(table.name, table.version) != table.version:
                    return sequence
        return high

    def statement_behind_rows(self, low: int, high: int, table_of: Callable[[int], TableSchema] | None = None) -> int:
        """The first DDL statement within [low, high) with rows before it in it; `high` without one. With `table_of`
        only one that those rows may depend on: a statement on known tables may come before the rows of all others."""
        found = self.sequence_of_rows(self.at(low).rows)  # the first rows event from `low` on
        later = self.statements_within(max(low, found), high)
        first = next(later, high)
        if table_of is None or first == high:
            return first
        begun = self._first_rows(low, high, table_of)
        for statement in chain([first], later):
            number = self._number(statement)
            if number < 0 or any(begun.get(name.lower(), high) < statement for name in table_of(number).all_names):
                return statement
        return high

    def _first_rows(self, low: int, high: int, table_of: Callable[[int], TableSchema]) -> dict[str, int]:
        """By name in lower case, as some servers keep them, where the first rows of each table within [low, high)
        are."""
        found: dict[str, int] = {}
        seen: set[int] = set()
        for owner in self.parts.between(low, high):
            for sequence, schema_id in owner.schemas(low, high, seen):
                if schema_id not in seen:
                    seen.add(schema_id)
                    found.setdefault(table_of(schema_id).name.lower(), sequence)
        return found

    def _number(self, sequence: int) -> int:
        """The schema number of an event."""
        part = self.parts.all[self.parts.number(sequence)]
        return int(part.block.index["schema"][sequence - part.first.sequence])

    def statements_within(self, low: int, high: int) -> Iterator[int]:
        """The DDL statements within [low, high), as sequences."""
        for owner in self.parts.between(low, high):
            yield from owner.statements_within(low, high)

    def unshown_within(self, low: int, high: int) -> int | None:
        """The first DDL statement within [low, high) that Canal's entries alone show, as a sequence."""
        at = low
        for part in self.slices(low, high):
            found = np.flatnonzero(part.index["kind"] == Kind.DDL_UNSHOWN)
            if len(found):
                return at + int(found[0])
            at += len(part.index)
        return None
