"""A segment: one block of the ring's log with its place in it, and sums that make a range a matter of two searches.

Also here: `merge`, which makes one block of two small ones, and `compact`, which keeps of a block without captured
rows only what positions need. Neither knows of clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.source.block import INDEX, Block, Kind
from cdc_core.store.cursor import Cursor

_GTID_EVENTS = np.array([33, 34, 42, 162], dtype=np.uint8)  # GTID, ANONYMOUS_GTID, GTID_TAGGED, MariaDB's GTID
_SERVER_ID = slice(5, 9)  # in an event's header

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
        events = np.flatnonzero(part["kind"] == Kind.ROWS)
        ids, where = np.unique(part["schema"][events], return_index=True)
        return sorted((base + int(events[w]), int(i)) for i, w in zip(ids, where, strict=True))

    def server_id(self, event: int) -> int:
        offset = int(self.block.index["offset"][event])
        return int.from_bytes(self.block.data[offset : offset + 19][_SERVER_ID].tobytes(), "little")


def segment(block: Block, first: Cursor) -> Segment:
    """`block` placed at `first`, with its sums."""
    is_rows = block.index["kind"] == Kind.ROWS
    rows = np.zeros(len(block.index) + 1, dtype=np.int64)
    np.cumsum(np.where(is_rows, block.index["rows"], 0), dtype=np.int64, out=rows[1:])
    commits = np.flatnonzero(block.index["kind"] == Kind.COMMIT) + 1
    return Segment(block, first, rows, commits.astype(np.int64))


def mergeable(left: Block, right: Block, limit: int) -> bool:
    """Whether two neighbours are small enough for one; the sizes keep the copying logarithmic."""
    together = left.nbytes + right.nbytes <= limit and left.nbytes <= 2 * right.nbytes
    return together and left.journal_name == right.journal_name


def merge(left: Segment, right: Segment) -> Segment:
    shifted = right.block.index.copy()
    shifted["offset"] += len(left.block.data)
    block = Block(
        left.block.journal_name,
        left.block.start,
        np.concatenate([left.block.data, right.block.data]),
        np.concatenate([left.block.index, shifted]),
    )
    rows = np.concatenate([left.rows, right.rows[1:] + left.rows[-1]])
    return Segment(block, left.first, rows, np.concatenate([left.commits, right.commits + left.events]))


def compact(block: Block) -> Block:
    """A block without captured rows, cut down to transaction ends, GTIDs and the last event; any other as it is."""
    kind = block.index["kind"]
    if not len(kind) or bool((kind == Kind.ROWS).any()):
        return block
    keep = (kind == Kind.COMMIT) | np.isin(block.index["type"], _GTID_EVENTS)
    keep[-1] = True
    index = block.index[keep]
    length = index["length"].astype(np.int64)
    offset = np.cumsum(length) - length
    source = np.repeat(index["offset"].astype(np.int64) - offset, length) + np.arange(length.sum())
    index["offset"] = offset
    return Block(block.journal_name, block.start, block.data[source], index)
