"""A block: bytes of whole binlog events, and an index with one row for each event.

This is what flows from the source to the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from cdc_core.position import EntryPosition

INDEX = np.dtype(
    [
        ("end", "<i8"),  # offset in the journal where the event ends; 64 bits, also beyond 4 GiB
        ("offset", "<u4"),  # of the event's header in `data`
        ("length", "<u4"),  # bytes of header and body, without the checksum
        ("timestamp", "<u4"),  # seconds since the epoch, from the event's header
        ("rows", "<u4"),  # of a rows event: changed rows (an update's two images are one row)
        ("schema", "<i4"),  # of a rows event: number in the SchemaRegistry; -1 for others and for filtered rows
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
        ends, offset = self.index["end"], int(self.index["offset"][row])
        end = int(ends[row])
        header = self.data[offset : offset + 17].tobytes()
        size, log_pos = int.from_bytes(header[9:13], "little"), int.from_bytes(header[13:17], "little")
        if log_pos == end & 0xFFFFFFFF:  # not so for events inside a compressed transaction
            return end - size
        first = int(np.searchsorted(ends, end))
        return int(ends[first - 1]) if first else self.start

    def position(self, row: int) -> EntryPosition:
        """Where the event of an index row ends, with its time and its server."""
        entry = self.index[row]
        offset = int(entry["offset"])
        server_id = int.from_bytes(self.data[offset + 5 : offset + 9].tobytes(), "little")
        return EntryPosition(self.journal_name, int(entry["end"]), int(entry["timestamp"]) * 1000, server_id)

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
