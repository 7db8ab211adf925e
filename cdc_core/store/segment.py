"""A segment: one block of the ring's log with its place in it, and sums that make a range a matter of two searches.

Also here: `merge`, which makes one block of two small ones, and `compact`, which keeps of a block without captured
rows only what positions need. Neither knows of clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.position import EntryPosition
from cdc_core.source.block import INDEX, Block, Kind
from cdc_core.store.cursor import Cursor

_KEPT = np.isin(np.arange(256), [33, 34, 42, 162])  # types of GTID, ANONYMOUS_GTID, GTID_TAGGED, MariaDB's GTID
_ROWS, _COMMIT = int(Kind.ROWS), int(Kind.COMMIT)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """`rows[i]` counts the rows before event i (and after the last); `commits` number the events after COMMITs."""

    block: Block
    first: Cursor
    rows: Ints
    commits: Ints

    @property
    def events(self) -> int:
        return len(self.rows) - 1

    @property
    def end(self) -> int:
        return self.first.sequence + self.events

    def at(self, sequence: int) -> Cursor:
        """The cursor before event `sequence`, which lies in this segment or just after it."""
        event = sequence - self.first.sequence
        offset = self.block.index["offset"]
        data = self.block.data.nbytes if event == self.events else int(offset[event]) - int(offset[0])
        nbytes = data + event * INDEX.itemsize
        return Cursor(sequence, self.first.rows + int(self.rows[event]), self.first.nbytes + nbytes)

    def whole(self, sequence: int) -> tuple[int, int]:
        """The nearest sequences at or around `sequence` between which no event ends where its neighbour does: events
        that came in one have one position, and only together."""
        event, ends = sequence - self.first.sequence, self.block.index["end"]
        if not 0 < event < self.events or ends[event - 1] != ends[event]:
            return sequence, sequence
        low, high = np.searchsorted(ends, ends[event], side="left"), np.searchsorted(ends, ends[event], side="right")
        return self.first.sequence + int(low), self.first.sequence + int(high)

    def last_commit(self, low: int, high: int) -> int | None:
        """The last transaction end within (low, high], as a sequence."""
        found = int(np.searchsorted(self.commits, high - self.first.sequence, side="right")) - 1
        if found < 0:
            return None
        commit = self.first.sequence + int(self.commits[found])
        return commit if commit > low else None

    def first_commit(self, low: int) -> int | None:
        """The first transaction end after `low`."""
        found = int(np.searchsorted(self.commits, low - self.first.sequence, side="right"))
        return self.first.sequence + int(self.commits[found]) if found < len(self.commits) else None

    def commits_within(self, low: int, high: int) -> int:
        bounds = np.searchsorted(self.commits, [low - self.first.sequence, high - self.first.sequence], side="right")
        return int(bounds[1] - bounds[0])

    def schemas(self, low: int, high: int) -> list[tuple[int, int]]:
        """(sequence, schema id) of each id's first rows event within [low, high), in order."""
        base = max(low, self.first.sequence)
        part = self.block.index[base - self.first.sequence : high - self.first.sequence]
        events = np.flatnonzero(part["kind"] == _ROWS)
        ids, where = np.unique(part["schema"][events], return_index=True)
        return sorted((base + int(events[w]), int(i)) for i, w in zip(ids, where, strict=True))

    def position(self, sequence: int) -> EntryPosition:
        """Where the event just before `sequence` ends."""
        entry = self.block.index[sequence - self.first.sequence - 1]
        offset = int(entry["offset"])
        server_id = int.from_bytes(self.block.data[offset + 5 : offset + 9].tobytes(), "little")
        return EntryPosition(self.block.journal_name, int(entry["end"]), int(entry["timestamp"]) * 1000, server_id)


def segment(block: Block, first: Cursor) -> Segment:
    """`block` placed at `first`, with its sums."""
    is_rows = block.index["kind"] == _ROWS
    rows = np.zeros(len(block.index) + 1, dtype=np.int64)
    np.cumsum(np.where(is_rows, block.index["rows"], 0), dtype=np.int64, out=rows[1:])
    commits = np.flatnonzero(block.index["kind"] == _COMMIT) + 1
    return Segment(block, first, rows, commits.astype(np.int64))


def mergeable(left: Block, right: Block, limit: int) -> bool:
    """Whether two neighbours are small enough for one; the sizes keep the copying logarithmic."""
    together = left.nbytes + right.nbytes <= limit and left.nbytes <= 2 * right.nbytes
    return together and left.journal_name == right.journal_name


def merge(left: Segment, right: Segment) -> Segment:
    index = np.empty(left.events + right.events, INDEX)
    index[: left.events], index[left.events :] = left.block.index, right.block.index
    index["offset"][left.events :] += len(left.block.data)
    data = np.concatenate([left.block.data, right.block.data])
    block = Block(left.block.journal_name, left.block.start, data, index)
    rows = np.concatenate([left.rows, right.rows[1:] + left.rows[-1]])
    return Segment(block, left.first, rows, np.concatenate([left.commits, right.commits + left.events]))


def compact(block: Block) -> Block:
    """A block without captured rows, cut down to transaction ends, GTIDs and the last event; any other as it is."""
    kind = block.index["kind"]
    if not len(kind) or bool((kind == _ROWS).any()):
        return block
    keep = (kind == _COMMIT) | _KEPT[block.index["type"]]
    keep[-1] = True
    index = block.index[keep]
    length = index["length"].astype(np.int64)
    offset = np.cumsum(length) - length
    source = np.repeat(index["offset"].astype(np.int64) - offset, length) + np.arange(length.sum())
    index["offset"] = offset
    return Block(block.journal_name, block.start, block.data[source], index)
