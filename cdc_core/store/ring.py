"""The ring: one log that all clients share, bounded in bytes and events, with put >= get >= ack for each client.

Pure: no lock, no clock, no I/O. It chooses ranges; the session knows who claimed them, for how long, and which cursor
an ack moves. It does not promise that a block fits: `try_put` refuses it when the ring is full, and the caller waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.errors import SessionError, StoreError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.store.log import Log
from cdc_core.store.mark import Mark
from cdc_core.store.parts import MERGE_BYTES
from cdc_core.store.range import Range
from cdc_core.store.segment import Segment, compact


@dataclass(slots=True)
class Marks:
    """One client's marks. While `after` is set, both pass over the events that end at or before that position."""

    get: Mark
    ack: Mark
    after: EntryPosition | None = None


class Ring:
    """One block always fits into an empty ring. Capacities are in bytes and in events (`capacity_items`).

    With `disk_bytes` a keeper writes the log's segments to disk. Then the capacities bound what is in memory, and what
    is acked stays until its room is needed, or until it expires.

    The mutable state is the log, the marks of each client, and whether the last put was refused: because nothing is
    acked (`full`), or because memory waits for the disk (`crowded`). `stuck`: the disk takes nothing at the moment.
    `isolates_ddl`: a DDL statement that stands alone is a range of its own (`canal.instance.get.ddl.isolation`).
    """

    def __init__(
        self,
        table_of: Callable[[int], TableSchema],
        capacity_bytes: int,
        capacity_items: int | None = None,
        merge_bytes: int = MERGE_BYTES,
        disk_bytes: int = 0,
        *,
        isolates_ddl: bool = False,
    ) -> None:
        self.isolates_ddl = isolates_ddl
        self.capacity_bytes = capacity_bytes
        self.capacity_items = capacity_items
        self.log = Log(merge_bytes)
        self.disk_bytes = disk_bytes
        self.full = self.crowded = self.stuck = False
        self.clients: dict[int, Marks] = {}
        self._table_of = table_of

    def __repr__(self) -> str:
        get = min((m.get.sequence for m in self.clients.values()), default=0)
        ack = min((m.ack.sequence for m in self.clients.values()), default=0)
        return f"<Ring put={self.put.sequence} get={get} ack={ack} bytes={self.log.nbytes}>"

    @property
    def put(self) -> Mark:
        """The end of the log."""
        return self.log.end

    @property
    def unacked(self) -> bool:
        """Whether a client has something left to ack."""
        return any(marks.ack < self.put for marks in self.clients.values())

    @property
    def unacked_rows(self) -> bool:
        """The same for rows and DDL statements."""
        put = self.put
        return any(
            marks.ack.rows < put.rows or marks.ack.statements < put.statements for marks in self.clients.values()
        )

    # -- clients

    def subscribe(self, client: int, after: EntryPosition | None = None) -> None:
        """Adds a client at `after`; without it at the last transaction end.

        Raises StoreError when that end was freed, or when the log begins after `after`.
        """
        if after is None and self.log.committed < self.log.begin:
            raise StoreError(
                "the open transaction is larger than the ring: a new client cannot start inside it",
                hint="Subscribe again when the transaction has ended.",
            )
        start = self.log.committed if after is None else self.put
        if after is not None and self.log.events and after < self.log.reached(self.put):
            start, after = self._place_of(after), None
        self.clients[client] = Marks(start, start, after)

    def _place_of(self, position: EntryPosition) -> Mark:
        """The mark of a position among the log's events."""
        parts = self.log.parts
        sequence = parts.sequence_behind(position)
        if sequence is None or parts.start is None or position < parts.start:
            raise StoreError(
                "the store begins after the client's position",
                place=f"{position}; the store begins at {parts.start}",
                hint="Report this with the service's log: a bug.",
            )
        return self.log.at(sequence)

    def unsubscribe(self, client: int) -> None:
        self.clients.pop(client, None)
        self._free()

    def marks(self, client: int) -> Marks:
        """Raises SessionError for a client that is not subscribed."""
        if client not in self.clients:
            raise SessionError(
                f"client {client} is not subscribed", hint="Subscribe it first, or use the destination's own client."
            )
        return self.clients[client]

    # -- put

    def try_put(self, block: Block) -> bool:
        """Appends a block. False, with `full` set, when there is no room until a client acks."""
        block = compact(block)
        if not len(block.index):
            return True
        if not self._fits(block):
            self._free(block.nbytes)  # also what clients passed over, who ack nothing before they are at their position
        fits = self._fits(block)
        self.full = not fits and (not self.disk_bytes or self.stuck or not self._fits_disk(block))
        self.crowded = not fits and not self.full
        if fits:
            self._pass_over(self.log.append(block))
        return fits

    def _fits(self, block: Block) -> bool:
        log = self.log
        memory = log.parts.memory
        if memory is None:
            return self._fits_disk(block)
        events, nbytes = log.end.sequence - memory.sequence, log.end.nbytes - memory.nbytes
        items = self.capacity_items is None or events + len(block.index) <= self.capacity_items
        return items and nbytes + block.nbytes <= self.capacity_bytes and self._fits_disk(block)

    def _fits_disk(self, block: Block) -> bool:
        log = self.log
        return not self.disk_bytes or not log.events or log.nbytes + block.nbytes <= self.disk_bytes

    def _pass_over(self, new: Segment) -> None:
        """Moves the clients that wait for a position over the events that end at or before it."""
        for marks in self.clients.values():
            if marks.after is None:
                continue
            block, event = new.block, new.events
            if EntryPosition(block.journal_name, block.end) > marks.after:
                same = EntryPosition(block.journal_name, marks.after.position) == marks.after
                later = np.flatnonzero(block.index["end"] > marks.after.position) if same else np.zeros(1, np.int64)
                event, marks.after = int(later[0]), None
            marks.get = marks.ack = new.at(new.first.sequence + event)

    def drop_unclaimed(self) -> None:
        """Drops the events after the last commit that no client claimed: the source sends them again."""
        claimed = (marks.get for marks in self.clients.values() if marks.after is None)
        self._drop_from(max(self.log.committed, *claimed, Mark()))

    def drop_uncommitted(self) -> None:
        """Drops all events after the last commit. No client may hold a claim of them.

        A client that acked some of them passes over these when they come again.
        """
        self._drop_from(self.log.committed)

    def _drop_from(self, to: Mark) -> None:
        if to == self.put:
            return
        for marks in self.clients.values():
            if marks.ack > to:
                marks.after = marks.after or self.log.reached(marks.ack)
                marks.ack = to
            marks.get = min(marks.get, to)
        self.log.truncate(to)
        self.full = False
        self._free()  # of the last segment, all that is left may be acked

    # -- get

    def take(self, client: int, max_rows: int, max_bytes: int | None = None, *, entries: bool = False) -> Range | None:
        """The client's next range: whole transactions of at most `max_rows` rows and `max_bytes` bytes, of one schema
        for each table, without a DDL statement after rows of a table that it may concern. `entries`: without one after
        any rows, and statements that Canal's entries alone show are isolated like the others. The bytes before the
        first transaction with rows do not count.

        It is a part of a transaction only when that transaction alone exceeds the limits, when a table's schema changes
        inside it, or when the ring is full. A range may be empty. None: there is nothing to serve yet.
        """
        marks, log = self.marks(client), self.log
        get = marks.get
        if marks.after is not None or get == self.put:
            return None
        limit = log.sequence_of_rows(get.rows + max(1, max_rows))
        if max_bytes is not None:
            empty = log.last_commit_within(get.sequence, log.sequence_of_rows(get.rows))
            begin = get if empty is None else log.at(empty)
            limit = min(limit, max(log.sequence_of_bytes(begin.nbytes + max_bytes), begin.sequence + 1))
        cut = log.statement_behind_rows(get.sequence, limit, None if entries else self._table_of)
        cut = log.schema_change(get.sequence, cut, self._table_of)
        isolated = self._isolated(get, cut, entries=entries) if self.isolates_ddl else None
        cut = cut if isolated is None else isolated
        commit = log.last_commit_within(get.sequence, cut)
        whole = None if commit is None else Range(get, log.at(commit), log.at(commit))
        if whole is None or (whole.empty and isolated is None):
            return self._part(get, limit, cut) or whole
        return whole

    def _isolated(self, get: Mark, cut: int, *, entries: bool) -> int | None:
        """Before the first DDL statement that stands alone, or after it where nothing that counts comes before; None
        without one."""
        log = self.log
        shown = (
            at for at in log.statements_within(get.sequence, cut) if log.last_commit_within(at, at + 1) is not None
        )
        alone = next(shown, None)
        if entries:
            unshown = log.unshown_within(get.sequence, cut if alone is None else alone)
            alone = alone if unshown is None else unshown
        if alone is None:
            return None
        before = log.at(alone)
        return alone + (before.rows == get.rows and before.statements == get.statements)

    def _part(self, get: Mark, limit: int, cut: int) -> Range | None:
        """A part of the transaction that begins at `get`; None when the transaction may still be served whole."""
        log = self.log
        alone = limit < self.put.sequence or (cut < limit and log.last_commit_within(cut, limit) is not None)
        if not (alone or self.full):
            return None
        cut = log.whole(cut)[0]
        if log.at(cut).rows == get.rows:  # the first rows event alone exceeds max_rows: events are served whole
            cut = log.whole(min(log.sequence_of_rows(get.rows) + 1, self.put.sequence))[1]
        commit = log.last_commit_within(get.sequence, cut)
        return Range(get, log.at(cut), None if commit is None else log.at(commit))

    def advance(self, client: int, to: Mark) -> None:
        """Moves get forward after a claim, or back after a rollback."""
        self.marks(client).get = to

    # -- ack

    def ack(self, client: int, to: Mark) -> None:
        """Moves ack forward, and frees what all clients have acked."""
        marks = self.marks(client)
        if not marks.ack <= to <= self.put:
            raise StoreError(
                f"event {to.sequence} is outside of what client {client} may ack",
                place=f"events {marks.ack.sequence} to {self.put.sequence}",
                hint="Report this with the service's log: a bug.",
            )
        marks.ack = to
        marks.get = max(marks.get, to)
        self._free()

    def oldest_commit(self, client: int) -> EntryPosition | None:
        """The end of the first transaction with rows or statements that the client has not acked."""
        ack, put, log = self.marks(client).ack, self.put, self.log
        first = [log.sequence_of_rows(ack.rows)] if ack.rows < put.rows else []
        if ack.statements < put.statements:
            first += islice(log.statements_within(ack.sequence, put.sequence), 1)
        commit = log.first_commit_after(min(first)) if first else None
        return None if commit is None else self.log.position(commit)

    def expire(self, time: float, keep_bytes: int | None = None) -> None:
        """Frees what all clients have acked and is older than `time`, in seconds since the epoch, or lies more than
        `keep_bytes` before what they have not acked; and what does not fit on disk any more."""
        acked, parts = self._acked_mark(), self.log.parts
        old = parts.sequence_of_time(time)
        if keep_bytes is not None:
            old = max(old, parts.sequence_of_bytes(acked.nbytes - keep_bytes))
        self.log.free(min(acked.sequence, old))
        self._free()

    def _acked_mark(self) -> Mark:
        return min((marks.ack for marks in self.clients.values()), default=Mark())

    def _free(self, nbytes: int = 0) -> None:
        """Frees what all clients have acked; with a store on disk, only as much as `nbytes` more need."""
        to, log = self._acked_mark().sequence, self.log
        if self.disk_bytes:
            to = min(to, log.parts.sequence_of_bytes(log.end.nbytes + nbytes - self.disk_bytes))
        if log.free(to):
            self.full = False
