"""A segment: one block of the ring's log with its place in it, and running sums that searches use.

`merge` makes one block of two small ones. `compact` reduces a block without captured rows to what positions need.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import ENDS, INDEX, STATEMENTS, Block, Kind
from cdc_core.binlog.events import GTIDS, HEADER, STATEMENT_END, EventType
from cdc_core.position import EntryPosition
from cdc_core.store.mark import Mark

_QUERIES = [EventType.ROWS_QUERY, EventType.MARIA_ANNOTATE_ROWS]
_QUERY = np.isin(np.arange(256), _QUERIES)  # by type
_ROWS, _BEGIN, _FILTERED = int(Kind.ROWS), int(Kind.BEGIN), int(Kind.FILTERED)
_END, _STATEMENT = (np.isin(np.arange(256), kinds) for kinds in (ENDS, STATEMENTS))  # by kind

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """`rows[i]` is the number of rows before event i, its last item that of the whole block. `commits` has for each
    transaction end the number of events up to it, `statements` for each DDL statement the number before it."""

    block: Block
    first: Mark
    rows: Ints
    commits: Ints
    statements: Ints

    @property
    def events(self) -> int:
        return len(self.rows) - 1

    @property
    def end(self) -> int:
        return self.first.sequence + self.events

    @property
    def start(self) -> EntryPosition:
        """Where the first event begins."""
        return EntryPosition(self.block.journal_name, self.block.start)

    def at(self, sequence: int) -> Mark:
        """The mark before event `sequence`, which lies in this segment or just after it."""
        event = sequence - self.first.sequence
        offset = self.block.index["offset"]
        data = self.block.data.nbytes if event == self.events else int(offset[event]) - int(offset[0])
        nbytes = data + event * INDEX.itemsize
        statements = self.first.statements + int(np.searchsorted(self.statements, event))
        return Mark(sequence, self.first.rows + int(self.rows[event]), self.first.nbytes + nbytes, statements)

    def until(self, sequence: int) -> Segment:
        """The segment without its events from `sequence` on, of which there is at least one."""
        count = sequence - self.first.sequence
        data = self.block.data[: int(self.block.index["offset"][count])]
        block = Block(self.block.journal_name, self.block.start, data, self.block.index[:count])
        commits = self.commits[: int(np.searchsorted(self.commits, count, side="right"))]
        statements = self.statements[: int(np.searchsorted(self.statements, count))]
        return Segment(block, self.first, self.rows[: count + 1], commits, statements)

    def whole(self, sequence: int) -> tuple[int, int]:
        """The nearest sequences at or around `sequence` where a range may end.

        Events that came out of one event share its position, so no range may end between them.
        """
        event, ends = sequence - self.first.sequence, self.block.index["end"]
        if not 0 < event < self.events or ends[event - 1] != ends[event]:
            return sequence, sequence
        low, high = np.searchsorted(ends, ends[event], side="left"), np.searchsorted(ends, ends[event], side="right")
        return self.first.sequence + int(low), self.first.sequence + int(high)

    def last_commit_within(self, low: int, high: int) -> int | None:
        """The last transaction end within (low, high], as a sequence."""
        found = int(np.searchsorted(self.commits, high - self.first.sequence, side="right")) - 1
        if found < 0:
            return None
        commit = self.first.sequence + int(self.commits[found])
        return commit if commit > low else None

    def first_commit_after(self, low: int) -> int | None:
        """The first transaction end after `low`, as a sequence."""
        found = int(np.searchsorted(self.commits, low - self.first.sequence, side="right"))
        return self.first.sequence + int(self.commits[found]) if found < len(self.commits) else None

    def commits_within(self, low: int, high: int) -> int:
        bounds = np.searchsorted(self.commits, [low - self.first.sequence, high - self.first.sequence], side="right")
        return int(bounds[1] - bounds[0])

    def schemas(self, low: int, high: int, seen: Collection[int] = ()) -> list[tuple[int, int]]:  # noqa: ARG002
        """The first rows event of each schema id within [low, high): (sequence, schema id), in order. Those in `seen`
        may be left out."""
        base = max(low, self.first.sequence)
        part = self.block.index[base - self.first.sequence : high - self.first.sequence]
        events = np.flatnonzero(part["kind"] == _ROWS)
        ids, where = np.unique(part["schema"][events], return_index=True)
        return sorted((base + int(events[w]), int(i)) for i, w in zip(ids, where, strict=True))

    def numbers(self) -> list[int]:
        """The schema ids of its rows and statements."""
        index = self.block.index
        has_some = (index["kind"] == _ROWS) | (_STATEMENT[index["kind"]] & (index["schema"] >= 0))
        found: list[int] = np.unique(index["schema"][has_some]).tolist()
        return found

    def statements_within(self, low: int, high: int) -> list[int]:
        """The DDL statements within [low, high), as sequences."""
        first, last = np.searchsorted(self.statements, [low - self.first.sequence, high - self.first.sequence])
        return [self.first.sequence + int(event) for event in self.statements[first:last]]

    def position(self, sequence: int) -> EntryPosition:
        """Where the event just before `sequence` ends."""
        return self.block.position(sequence - self.first.sequence - 1)


def segment(block: Block, first: Mark) -> Segment:
    """A block placed at `first`, with its sums."""
    is_rows = block.index["kind"] == _ROWS
    rows = np.zeros(len(block.index) + 1, dtype=np.int64)
    np.cumsum(np.where(is_rows, block.index["rows"], 0), dtype=np.int64, out=rows[1:])
    kind = block.index["kind"]
    commits, statements = np.flatnonzero(_END[kind]) + 1, np.flatnonzero(_STATEMENT[kind])
    return Segment(block, first, rows, commits.astype(np.int64), statements.astype(np.int64))


def mergeable(left: Segment, right: Segment, limit: int) -> bool:
    """Whether two neighbours fit into `limit` bytes. Merging like sizes only copies each byte a few times at most."""
    one, two = left.block, right.block
    small = one.nbytes + two.nbytes <= limit and one.nbytes <= 2 * two.nbytes
    return small and one.journal_name == two.journal_name


def merge(left: Segment, right: Segment) -> Segment:
    index = np.empty(left.events + right.events, INDEX)
    index[: left.events], index[left.events :] = left.block.index, right.block.index
    index["offset"][left.events :] += len(left.block.data)
    data = np.concatenate([left.block.data, right.block.data])
    block = Block(left.block.journal_name, left.block.start, data, index)
    rows = np.concatenate([left.rows, right.rows[1:] + left.rows[-1]])
    commits, statements = (
        np.concatenate([one, two + left.events])
        for one, two in ((left.commits, right.commits), (left.statements, right.statements))
    )
    return Segment(block, left.first, rows, commits, statements)


def compact(block: Block) -> Block:
    """A block without captured rows, reduced to transaction ends, DDL, GTIDs, the start of what is open at its end, and
    the last event; any other as it is."""
    kind = block.index["kind"]
    if not len(kind) or bool((kind == _ROWS).any()):
        return block
    keep = _END[kind] | _STATEMENT[kind] | (GTIDS[block.index["type"]] > 0)
    keep[_open_starts(block)] = True
    keep[-1] = True
    index = block.index[keep]
    length = index["length"].astype(np.int64)
    offset = np.cumsum(length) - length
    source = np.repeat(index["offset"].astype(np.int64) - offset, length) + np.arange(length.sum())
    index["offset"] = offset
    return Block(block.journal_name, block.start, block.data[source], index)


def _open_starts(block: Block) -> list[int]:
    """The events that rows in later blocks need: BEGIN of the transaction that is open at the block's end, and the text
    of the statement that is. Without captured rows the block has at most one of each."""
    kind = block.index["kind"]
    ends = np.flatnonzero(_END[kind])
    first = int(ends[-1]) + 1 if len(ends) else 0
    begins = np.flatnonzero(kind[first:] == _BEGIN)[-1:] + first
    texts = np.flatnonzero(_QUERY[block.index["type"][first:]])[-1:] + first
    rows = np.flatnonzero(kind[first:] == _FILTERED)[-1:] + first
    if len(rows) and len(texts) and rows[0] > texts[0] and _ends_statement(block, int(rows[0])):
        texts = texts[:0]
    return [*begins.tolist(), *texts.tolist()]


def _ends_statement(block: Block, row: int) -> bool:
    """Whether a rows event is the last of its statement."""
    return bool(block.data[int(block.index["offset"][row]) + HEADER + 6] & STATEMENT_END)
