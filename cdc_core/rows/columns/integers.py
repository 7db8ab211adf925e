"""Integers of 1, 2, 3, 4 and 8 bytes, signed and unsigned. Bits, floats, years and enums use the same kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from cdc_core.compiled.fault import ANSWER, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_LONGS, Bytes, Longs, int64, kernel
from cdc_core.rows.columns.arrays import fixed
from cdc_core.rows.columns.cells import Cells
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column

UINT64 = pa.decimal128(20, 0)

_WIDTH: dict[int, int] = {  # bytes
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
_SIGNED = {1: pa.int8(), 2: pa.int16(), 3: pa.int32(), 4: pa.int32(), 8: pa.int64()}  # by width
_UNSIGNED = {1: pa.int16(), 2: pa.int32(), 3: pa.int32(), 4: pa.int64(), 8: UINT64}


def arrow_type(column: Column) -> pa.DataType:
    kinds = _UNSIGNED if column.unsigned else _SIGNED
    return kinds[_WIDTH[column.type_code]]


def decode(cells: Cells) -> pa.Array:
    return of_width(cells, _WIDTH[cells.column.type_code])


def of_width(cells: Cells, width: int) -> pa.Array:
    """Integers that take `width` bytes each, which may be more than the column's type needs."""
    kind = arrow_type(cells.column)
    values = gathered(cells, width, signed=not cells.column.unsigned)
    return unsigned64(values, cells.present()) if kind == UINT64 else narrowed(kind, values, cells.present())


def gathered(cells: Cells, width: int, *, signed: bool = False, big_endian: bool = False) -> Longs:
    """The integers of `width` bytes at each start; 0 for NULL. Unsigned ones of 64 bits are in two's complement."""
    values = np.empty(len(cells), np.int64)
    cells.check(_gather(cells.data, cells.starts, width, signed, big_endian, values))
    return values


def narrowed(kind: pa.DataType, values: Longs, present: Bytes) -> pa.Array:
    """An Arrow array of a narrower integer type. The caller knows that the values fit."""
    return fixed(kind, values.astype(kind.to_pandas_dtype(), copy=False), present)


def unsigned64(values: Longs, present: Bytes) -> pa.Array:
    """Unsigned integers of 64 bits as decimal128(20, 0): Spark has no type for them."""
    pairs: npt.NDArray[np.int64] = np.zeros((len(values), 2), np.int64)
    pairs[:, 0] = values
    return fixed(UINT64, pairs, present)


@kernel(ANSWER(BYTES, LONGS, types.int64, types.boolean, types.boolean, OUT_LONGS))
def _gather(data: Bytes, starts: Longs, width: int, signed: bool, big_endian: bool, values: Longs) -> Answer:
    shift = 64 - 8 * width
    for i in range(len(starts)):
        start = starts[i]
        value = int64(0)
        if start >= 0:
            if start + width > len(data):
                return Fault.SHORT, i
            if big_endian:
                for k in range(width):
                    value = value << 8 | int64(data[start + k])
            else:
                for k in range(width):
                    value |= int64(data[start + k]) << (8 * k)
            if signed:
                value = (value << shift) >> shift
        values[i] = value
    return Fault.OK, 0
