"""BIT(n): big-endian, in as few bytes as hold n bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdc_core.rows.columns.arrays import fixed
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.integers import UINT64, gathered, narrowed, unsigned64
from cdc_core.schema.table import Column


def arrow_type(column: Column) -> pa.DataType:
    bits = _bits(column)
    if bits == 1:
        return pa.bool_()
    return UINT64 if bits == 64 else pa.int64()


def decode(cells: Cells) -> pa.Array:
    bits, present = _bits(cells.column), cells.present()
    values = gathered(cells, (bits + 7) // 8, big_endian=True)
    if bits < 64 and len(beyond := np.flatnonzero(values >> bits)):
        raise cells.error(int(beyond[0]), f"a bit beyond the column's {bits}")
    if bits == 1:
        return fixed(pa.bool_(), np.packbits(values != 0, bitorder="little"), present)
    return unsigned64(values, present) if bits == 64 else narrowed(pa.int64(), values, present)


def _bits(column: Column) -> int:
    """The metadata has the number of whole bytes, and of the bits beyond them."""
    return (column.meta & 0xFF) + 8 * (column.meta >> 8)
