"""A block: contiguous bytes of binlog events with an index, one row of it per event.

What flows from the source to the store. Offsets are into `data`; `end` is the event's end offset in its journal
(64 bit, also beyond 4 GiB). Columns `kind`, `schema` and `rows` are filled in by `binlog.annotate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

INDEX = np.dtype(
    [
        ("end", "<i8"),  # offset in the journal just after the event
        ("offset", "<u4"),  # of the event's header in `data`
        ("length", "<u4"),  # header and body, without the checksum
        ("timestamp", "<u4"),  # seconds since the epoch, from the event's header
        ("rows", "<u4"),  # row events: images of changed rows (an update is one row)
        ("schema", "<i4"),  # row events: id in the SchemaRegistry; -1 otherwise, or when filtered out
        ("row_base", "<u4"),  # number of the event's first row image within its outer event; 0 outside payloads
        ("type", "u1"),  # MySQL's event type code
        ("kind", "u1"),  # a Kind
        ("flags", "<u2"),  # of the event's header
    ]
)


class Kind(IntEnum):
    """What an event means to the store."""

    OTHER = 0
    BEGIN = 1  # a transaction starts (BEGIN query; GTID events are OTHER)
    ROWS = 2
    COMMIT = 3  # a transaction ended: XID, COMMIT, or a statement that stands alone (DDL)
    FILTERED = 4  # rows of a table that the filter leaves out


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
        """What the block counts for in the ring."""
        return int(self.data.nbytes + self.index.nbytes)


@dataclass(frozen=True, slots=True)
class BlockSlice:
    """Rows `low` (inclusive) to `high` (exclusive) of a block's index: a part of a claim's range."""

    block: Block
    low: int
    high: int
