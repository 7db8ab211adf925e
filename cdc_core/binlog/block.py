"""A block: bytes of whole binlog events, and an index with one row for each event.

This is what flows from the source to the store.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import HEADER
from cdc_core.position import Anchor, EntryPosition

_MOST_DIGESTED = 1 << 16  # bytes of an event

INDEX = np.dtype(
    [
        ("end", "<i8"),  # offset in the journal where the event ends; 64 bits, also beyond 4 GiB
        ("offset", "<u4"),  # of the event's header in `data`
        ("length", "<u4"),  # bytes of header and body, without the checksum
        ("timestamp", "<u4"),  # seconds since the epoch, from the event's header
        ("rows", "<u4"),  # of a rows event: changed rows (an update's two images are one row)
        ("schema", "<i4"),  # of rows: number in the SchemaRegistry; of a statement: that of its tables' names, or -1
        ("row_base", "<u4"),  # rows before this event's first in the same outer event; 0 outside payloads
        ("type", "u1"),  # an EventType, or a type that we do not know
        ("kind", "u1"),  # a Kind
        ("flags", "<u2"),  # of the event's header
    ]
)


class Kind(IntEnum):
    """What an event means to the store. `stream.annotate` sets it, with `schema` and `rows`."""

    OTHER = 0
    BEGIN = 1  # a transaction starts: a BEGIN query, or MariaDB's GTID event
    ROWS = 2
    COMMIT = 3  # a transaction ends: XID, COMMIT, or a statement that stands alone
    FILTERED = 4  # rows of a table that the filter leaves out
    DDL = 5  # a DDL statement with effects on captured tables; it stands alone, so a transaction ends too
    DDL_WITHIN = 6  # the same inside a transaction: CREATE ... SELECT, whose rows follow
    DDL_UNSHOWN = 7  # a DDL statement that Canal's entries show and the lake does not: of an index, a database


ENDS = (Kind.COMMIT, Kind.DDL, Kind.DDL_UNSHOWN)
STATEMENTS = (Kind.DDL, Kind.DDL_WITHIN)


@dataclass(frozen=True, slots=True)
class Block:
    """Events of one journal. `start` is the offset in the journal before the first of them."""

    journal_name: str
    start: int
    data: npt.NDArray[np.uint8]
    index: npt.NDArray[np.void]  # of dtype INDEX

    @property
    def end(self) -> int:
        return int(self.index["end"][-1]) if len(self.index) else self.start

    @property
    def nbytes(self) -> int:
        """What the block takes of the ring."""
        return int(self.data.nbytes + self.index.nbytes)

    def start_of(self, row: int) -> int:
        """The offset in the journal where the event of an index row starts: inside a compressed transaction, where the
        transaction's own event starts."""
        ends = self.index["end"]
        end = int(ends[row])
        if self._ends_itself(row):
            return end - self._stated_size(row)
        first = int(np.searchsorted(ends, end))
        return int(ends[first - 1]) if first else self.start

    def position(self, row: int) -> EntryPosition:
        """Where the event of an index row ends, with its time, its server and its anchor."""
        entry = self.index[row]
        offset = int(entry["offset"])
        server_id = int.from_bytes(self.data[offset + 5 : offset + 9].tobytes(), "little")
        time = int(entry["timestamp"]) * 1000
        return EntryPosition(self.journal_name, int(entry["end"]), time, server_id, anchor=self._anchor(row))

    def _anchor(self, row: int) -> Anchor | None:
        """None among the rows of a compressed transaction that became several blocks, where its start is unknown."""
        entry = self.index[row]
        if not self._ends_itself(row) and int(entry["kind"]) in ENDS:  # it ends where its compressed transaction ends
            return Anchor(int(entry["end"]) - self._stated_size(row), self.digest(row))
        if not self._ends_itself(row):
            first = int(np.searchsorted(self.index["end"], entry["end"]))
            if not first or not self._ends_itself(first - 1):
                return None
        return Anchor(self.start_of(row), self.digest(row))

    def _stated_size(self, row: int) -> int:
        """By the event's header: inside a compressed transaction, the size of the transaction's own event."""
        offset = int(self.index["offset"][row])
        return int.from_bytes(self.data[offset + 9 : offset + 13].tobytes(), "little")

    def _ends_itself(self, row: int) -> bool:
        """Whether the event is one of the journal: not one inside a compressed transaction."""
        offset = int(self.index["offset"][row])
        log_pos = int.from_bytes(self.data[offset + 13 : offset + 17].tobytes(), "little")
        return log_pos == int(self.index["end"][row]) & 0xFFFFFFFF

    def digest(self, row: int) -> int:
        """A checksum of what stays the same however the event comes: not of its size and flags."""
        entry = self.index[row]
        offset, length = int(entry["offset"]), int(entry["length"])
        head = self.data[offset : offset + 9].tobytes()
        body = self.data[offset + HEADER : offset + min(length, _MOST_DIGESTED)].tobytes()
        return zlib.crc32(body, zlib.crc32(head + length.to_bytes(4, "little")))

    def place(self, row: int) -> str:
        """Where the event of an index row starts, for errors: journal:offset."""
        return f"{self.journal_name}:{self.start_of(row)}"


@dataclass(frozen=True, slots=True)
class BlockSlice:
    """Rows `low` (inclusive) to `high` (exclusive) of a block's index: a part of a claim's range."""

    block: Block
    low: int
    high: int

    @property
    def index(self) -> npt.NDArray[np.void]:
        return self.block.index[self.low : self.high]
