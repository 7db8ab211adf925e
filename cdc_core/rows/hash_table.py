"""The hash table that a pass over a table's share of a range fills, and the columns that it hashes.

Sized in advance for the range's images; pages that stay untouched cost no memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdc_core.compiled.kernel import Ints
from cdc_core.rows import net_kernels as kernels
from cdc_core.rows.hashing import FLOATING, HashedColumns, new_seed
from cdc_core.rows.net_kernels import Entries
from cdc_core.rows.table_rows import TableRows
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import TableSchema

SEED = new_seed()  # of this process: hashes are never stored
_INTEGERS = {ColumnType.TINY, ColumnType.SHORT, ColumnType.LONG, ColumnType.LONGLONG, ColumnType.INT24}
_FLOATS = {ColumnType.FLOAT, ColumnType.DOUBLE}
_LIMITS = np.iinfo(np.int64)
_HALF = 1 << 63


class RawChanges(NamedTuple):
    """How many rows the range inserts, updates and deletes, before they are netted."""

    raw_inserts: int
    raw_updates: int
    raw_deletes: int


class HashTable:
    """`entries` are keys, or whole rows where there is no key: the kernels' view."""

    def __init__(self, found: TableRows) -> None:
        room = found.images
        slots = np.zeros(1 << max(4, (room + room // 2).bit_length()), np.int32)
        counts = np.array([0, 0, 0, 0, _LIMITS.max, _LIMITS.min, 0], np.int64)
        self.entries = Entries(slots, np.empty((room, 2), np.uint64), np.empty(room, np.int64), counts)

    def __len__(self) -> int:
        return int(self.entries.counts[kernels.ENTRIES])

    @property
    def groups(self) -> int:
        """How many rows the partial pass has numbered."""
        return int(self.entries.counts[kernels.GROUPS])

    def raw(self) -> RawChanges:
        return RawChanges(*self.entries.counts[kernels.INSERTS : kernels.DELETES + 1].tolist())


class PrimaryKey:
    """A table's key as kernels hash it, and the range of its values."""

    def __init__(self, schema: TableSchema, layout: Ints) -> None:
        names = [column.name for column in schema.columns]
        columns = np.array([names.index(name) for name in schema.primary_key], np.int32)
        first = schema.columns[columns[0]]
        integer = len(columns) == 1 and first.type_code in _INTEGERS
        bounds = (1 + first.unsigned) if integer else 0
        self._shift = _HALF if bounds == 2 and first.type_code == ColumnType.LONGLONG else 0
        floats = np.array([column.type_code in _FLOATS for column in schema.columns])
        self.hashed = HashedColumns(columns, (layout + FLOATING * floats).astype(np.int32), bounds, SEED)

    def range(self, table: HashTable) -> tuple[int | None, int | None]:
        """The least and the greatest key of a pass; None unless the key is one integer."""
        least, greatest = table.entries.counts[kernels.LEAST : kernels.GREATEST + 1].tolist()
        if self.hashed.bounds == 0 or least > greatest:
            return None, None
        return least + self._shift, greatest + self._shift


def all_columns(found: TableRows) -> HashedColumns:
    """The whole row, for a table without a key."""
    columns = np.arange(len(found.schema.columns), dtype=np.int32)
    return HashedColumns(columns, found.layout, 0, SEED)
