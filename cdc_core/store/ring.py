"""The ring: one shared log of annotated blocks, and for each client put >= get >= ack over it.

Pure: no lock, no clock, no I/O, and no Python object per event. It chooses ranges; who claimed them, for how long and
what an ack means to the cursor kept elsewhere is the session's. It does not promise that a block fits: `try_put`
refuses when full, and the caller waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cdc_core.errors import RangeGone, SessionError, StoreError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.source.block import Block, BlockSlice
from cdc_core.store.cursor import Cursor
from cdc_core.store.segment import Segment, compact, merge, mergeable, segment

MERGE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the log. `committed` is the last transaction end in it; a partial one ends within a transaction."""

    start: Cursor
    end: Cursor
    committed: Cursor | None

    @property
    def rows(self) -> int:
        return self.end.rows - self.start.rows

    @property
    def events(self) -> int:
        return self.end.sequence - self.start.sequence

    @property
    def nbytes(self) -> int:
        return self.end.nbytes - self.start.nbytes

    @property
    def partial(self) -> bool:
        return self.committed != self.end


@dataclass(slots=True)
class Marks:
    """One client's place. While `after` is set, events up to that position are passed over as they come."""

    get: Cursor
    ack: Cursor
    after: EntryPosition | None = None


class Ring:
    """Bounded in bytes and in items (events); one block alone always fits.

    The mutable state is the list of segments, the marks of each client, and whether the last put was refused.
    """

    def __init__(
        self,
        table_of: Callable[[int], TableSchema],
        capacity_bytes: int,
        capacity_items: int | None = None,
        merge_bytes: int = MERGE_BYTES,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.capacity_items = capacity_items
        self.put = Cursor()
        self.full = False
        self.last_position: EntryPosition | None = None  # end of the last event put
        self.last_commit: EntryPosition | None = None  # end of the last transaction put
        self.transactions = 0
        self.clients: dict[int, Marks] = {}
        self._committed = Cursor()
        self._table_of = table_of
        self._merge_bytes = merge_bytes
        self._segments: list[Segment] = []

    def __repr__(self) -> str:
        get = min((m.get.sequence for m in self.clients.values()), default=0)
        ack = min((m.ack.sequence for m in self.clients.values()), default=0)
        return f"<Ring put={self.put.sequence} get={get} ack={ack} bytes={self.nbytes}>"

    @property
    def committed(self) -> int:
        """The sequence behind the last transaction's end."""
        return self._committed.sequence

    @property
    def nbytes(self) -> int:
        return self.put.nbytes - self._tail.nbytes

    @property
    def items(self) -> int:
        return self.put.sequence - self._tail.sequence

    @property
    def unacked(self) -> bool:
        """Something was put that a client has not acked."""
        return any(marks.ack < self.put for marks in self.clients.values())

    @property
    def _tail(self) -> Cursor:
        return self._segments[0].first if self._segments else self.put

    # -- clients

    def subscribe(self, client: int, after: EntryPosition | None = None) -> None:
        """A client at `after`, which is not yet put; without it at the last transaction end in the ring."""
        if after is None and self._committed < self._tail:
            raise StoreError(
                "the transaction under way is larger than the ring, a new client cannot start inside it",
                hint="Subscribe again when it has ended.",
            )
        start = self._committed if after is None else self.put
        self.clients[client] = Marks(start, start, after)

    def unsubscribe(self, client: int) -> None:
        self.clients.pop(client, None)
        self._free()

    def marks(self, client: int) -> Marks:
        if client not in self.clients:
            raise SessionError(
                f"client {client} is not subscribed", hint="Subscribe it first, or use the destination's own client."
            )
        return self.clients[client]

    # -- put

    def try_put(self, block: Block) -> bool:
        """False, and `full`, when there is no room until somebody acks."""
        block = compact(block)
        if not len(block.index):
            return True
        self.full = not self._fits(block)
        if self.full:
            return False
        new = segment(block, self.put)
        self._pass_over(new)
        self.put = new.at(new.end)
        self.transactions += len(new.commits)
        self._segments.append(new)
        self.last_position = new.position(new.end)
        if len(new.commits):
            self._committed = new.at(new.first.sequence + int(new.commits[-1]))
            self.last_commit = new.position(self._committed.sequence)
        self._coalesce()
        return True

    def _fits(self, block: Block) -> bool:
        if not self._segments:
            return True
        items = self.capacity_items is None or self.items + len(block.index) <= self.capacity_items
        return items and self.nbytes + block.nbytes <= self.capacity_bytes

    def _coalesce(self) -> None:
        while len(self._segments) > 1 and mergeable(
            self._segments[-2].block, self._segments[-1].block, self._merge_bytes
        ):
            last = self._segments.pop()
            self._segments[-1] = merge(self._segments[-1], last)

    def _pass_over(self, new: Segment) -> None:
        """Moves clients that wait for a position over the events that end at or before it."""
        for marks in self.clients.values():
            if marks.after is None:
                continue
            block, event = new.block, new.events
            if EntryPosition(block.journal_name, block.end) > marks.after:
                same = EntryPosition(block.journal_name, marks.after.position) == marks.after
                later = np.flatnonzero(block.index["end"] > marks.after.position) if same else np.zeros(1, np.int64)
                event, marks.after = int(later[0]), None
            marks.get = marks.ack = new.at(new.first.sequence + event)

    # -- get

    def take(self, client: int, max_rows: int) -> Range | None:
        """The client's next range: whole transactions of at most `max_rows` rows, of one schema a table.

        A part of a transaction comes only when it alone exceeds `max_rows`, when its schema changes within, or when
        the ring is full. A range without rows may come; None means that there is nothing to serve yet.
        """
        marks = self.marks(client)
        get = marks.get
        if marks.after is not None or get.sequence == self.put.sequence:
            return None
        limit = self._sequence_of_rows(get.rows + max(1, max_rows))
        cut = self._schema_cut(get.sequence, limit)
        commit = self._last_commit(get.sequence, cut)
        if commit is None or self._at(commit).rows == get.rows:
            part = self._part(get, limit, cut)
            if part is not None:
                return part
        if commit is None:
            return None
        end = self._at(commit)
        return Range(get, end, end)

    def _part(self, get: Cursor, limit: int, cut: int) -> Range | None:
        alone = limit < self.put.sequence or (cut < limit and self._last_commit(cut, limit) is not None)
        if not (alone or self.full):
            return None
        cut = self._whole(cut)[0]
        if self._at(cut).rows == get.rows:  # the first rows event alone exceeds max_rows: events are served whole
            cut = self._whole(min(self._sequence_of_rows(get.rows) + 1, self.put.sequence))[1]
        commit = self._last_commit(get.sequence, cut)
        return Range(get, self._at(cut), None if commit is None else self._at(commit))

    def advance(self, client: int, to: Cursor) -> None:
        """Moves get on after a claim, or back after a rollback."""
        self.marks(client).get = to

    def ack(self, client: int, to: Cursor) -> None:
        """Moves ack on, and frees what every client has acked."""
        marks = self.marks(client)
        if not marks.ack <= to <= self.put:
            raise StoreError(f"ack to {to.sequence} is not ahead of {marks.ack.sequence}", hint="Report this: a bug.")
        marks.ack = to
        marks.get = max(marks.get, to)
        self._free()

    def _free(self) -> None:
        acked = min((marks.ack.sequence for marks in self.clients.values()), default=0)
        gone = 0
        while gone < len(self._segments) and self._segments[gone].end <= acked:
            gone += 1
        if gone:
            del self._segments[:gone]
            self.full = False

    # -- looking

    def slices(self, start: int, end: int) -> list[BlockSlice]:
        """The blocks' parts between two sequences. Raises RangeGone when some of it was freed."""
        if start < self._tail.sequence or end > self.put.sequence:
            raise RangeGone(
                "the range is no longer in the store", place=f"events {start} to {end}", hint="Claim again."
            )
        return [
            BlockSlice(s.block, max(start - s.first.sequence, 0), min(end - s.first.sequence, s.events))
            for s in self._between(start, end)
        ]

    def position(self, sequence: int) -> EntryPosition:
        """Where the event just before `sequence` ends."""
        return self._segments[self._segment_of(sequence - 1)].position(sequence)

    def transactions_within(self, start: int, end: int) -> int:
        return sum(s.commits_within(start, end) for s in self._between(start, end))

    def oldest_commit(self, client: int) -> EntryPosition | None:
        """The first transaction end that the client has not acked."""
        sequence = self.marks(client).ack.sequence
        for owner in self._between(sequence, self.put.sequence):
            commit = owner.first_commit(sequence)
            if commit is not None:
                return self.position(commit)
        return None

    def _between(self, start: int, end: int) -> Iterator[Segment]:
        for at in range(self._segment_of(start), len(self._segments)):
            if self._segments[at].first.sequence >= end:
                return
            yield self._segments[at]

    def _segment_of(self, sequence: int) -> int:
        return max(bisect_right(self._segments, sequence, key=lambda s: s.first.sequence) - 1, 0)

    def _at(self, sequence: int) -> Cursor:
        return self._segments[self._segment_of(sequence)].at(sequence)

    def _sequence_of_rows(self, rows: int) -> int:
        """The last sequence with at most `rows` rows before it."""
        owner = self._segments[bisect_right(self._segments, rows, key=lambda s: s.first.rows) - 1]
        return owner.first.sequence + int(np.searchsorted(owner.rows, rows - owner.first.rows, side="right")) - 1

    def _whole(self, sequence: int) -> tuple[int, int]:
        """Where a range may end, at or around `sequence`: between two events of one position it may not."""
        return self._segments[self._segment_of(sequence)].whole(sequence)

    def _last_commit(self, low: int, high: int) -> int | None:
        for at in range(self._segment_of(high), -1, -1):
            owner = self._segments[at]
            found = owner.last_commit(low, high)
            if found is not None or owner.first.sequence <= low:
                return found
        return None

    def _schema_cut(self, low: int, high: int) -> int:
        """The first rows event whose table has another version than before in the range; `high` when there is none."""
        versions: dict[str, str] = {}
        seen: set[int] = set()
        for owner in self._between(low, high):
            for sequence, schema_id in owner.schemas(low, high):
                if schema_id in seen:
                    continue
                seen.add(schema_id)
                table = self._table_of(schema_id)
                if versions.setdefault(table.name, table.version) != table.version:
                    return sequence
        return high
