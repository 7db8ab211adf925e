"""CHAR, VARCHAR, TEXT, BINARY, VARBINARY and BLOB: a length, then bytes in the column's character set.

UTF-8 is copied and checked, other character sets are converted to it. BINARY(n) is padded with the zero bytes that the
log leaves out; CHAR has no trailing spaces, as in SELECT. COMPRESSED columns of MariaDB are inflated first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from cdc_core.charsets import charsets
from cdc_core.charsets.unicode import Offsets
from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_INTS, Bytes, Longs, int64, kernel
from cdc_core.rows.columns import inflate
from cdc_core.rows.columns.arrays import variable
from cdc_core.rows.columns.cells import Cells
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column

_BLOBS = (
    ColumnType.TINY_BLOB,
    ColumnType.BLOB,
    ColumnType.MEDIUM_BLOB,
    ColumnType.LONG_BLOB,
    ColumnType.MARIA_BLOB_COMPRESSED,
)
_COMPRESSED = (ColumnType.MARIA_BLOB_COMPRESSED, ColumnType.MARIA_VARCHAR_COMPRESSED)


def arrow_type(column: Column) -> pa.DataType:
    return pa.binary() if charsets.charset(column).is_binary else pa.string()


def decode(cells: Cells) -> pa.Array:
    column, charset = cells.column, charsets.charset(cells.column)
    width = column.meta if charset.is_binary and column.type_code == ColumnType.STRING else 0
    raw, offsets = texts(cells, prefix_size(column), width)
    if column.type_code in _COMPRESSED:
        raw, offsets = inflate.inflated(cells, raw, offsets)
    return converted(cells, raw, offsets)


def converted(cells: Cells, raw: Bytes, offsets: Offsets) -> pa.Array:
    """Values in the column's character set, joined in `raw`, as Arrow. Raises DecodeError for bytes that are no text in
    it, and in a key for bytes whose text other bytes have too: two keys would become one."""
    present, charset = cells.present(), charsets.charset(cells.column)
    if charset.is_binary:
        return variable(pa.binary(), offsets, raw, present)
    if charset.is_utf8:
        return checked(cells, variable(pa.string(), offsets, raw, present))
    answer, out, ends = charsets.to_utf8(charset.name, raw, offsets, unique=cells.in_key)
    if answer[0] == Fault.MALFORMED:
        bad, remedy = f"its bytes are not text in {charset.name}", "Correct the value at the source."
        if cells.in_key:
            bad += ", or the same text as other bytes, so that two keys would become one"
            remedy = "Correct the value at the source, or convert the column to utf8mb4 there; then copy the table."
        raise cells.error(answer[1], bad, remedy)
    cells.check(answer)
    return variable(pa.string(), ends, out[: ends[-1]], present)


def prefix_size(column: Column) -> int:
    """Bytes of the length before each value."""
    if column.type_code in _BLOBS:
        return column.meta
    return 1 if column.meta < 256 else 2


def texts(cells: Cells, prefix: int, width: int = 0) -> tuple[Bytes, Offsets]:
    """The bytes of all values in a row, and their offsets. `width` is that of BINARY, else 0."""
    offsets = np.empty(len(cells) + 1, np.int32)
    cells.check(_measure(cells.data, cells.starts, prefix, width, offsets))
    out = np.zeros(offsets[-1], np.uint8) if width else np.empty(offsets[-1], np.uint8)
    _copy(cells.data, cells.starts, prefix, offsets, out)
    return out, offsets


def checked(cells: Cells, array: pa.Array) -> pa.Array:
    """The array itself. Raises DecodeError for a value that is not UTF-8: nothing later checks it."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise cells.error(_first_broken(array), "its bytes are not UTF-8", "Correct the value at the source.") from None
    return array


def _first_broken(array: pa.Array) -> int:
    """The image of the first value that is not UTF-8. For errors alone."""
    for image, value in enumerate(array.view(pa.binary()).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return image
    return 0


@kernel(ANSWER(BYTES, LONGS, types.int64, types.int64, OUT_INTS))
def _measure(data: Bytes, starts: Longs, prefix: int, width: int, offsets: npt.NDArray[np.int32]) -> Answer:
    total = 0
    offsets[0] = 0
    for i in range(len(starts)):
        start = starts[i]
        if start >= 0:
            if start + prefix > len(data):
                return Fault.SHORT, i
            length = 0
            for k in range(prefix):
                length |= int64(data[start + k]) << (8 * k)
            if start + prefix + length > len(data):
                return Fault.SHORT, i
            if width and length > width:
                return Fault.MALFORMED, i
            total += width if width else length
            if total > MAX_TEXT:
                return Fault.TOO_LARGE, i
        offsets[i + 1] = total
    return Fault.OK, 0


@kernel(ANSWER(BYTES, LONGS, types.int64, OUT_INTS, OUT_BYTES))
def _copy(data: Bytes, starts: Longs, prefix: int, offsets: npt.NDArray[np.int32], out: Bytes) -> Answer:
    """Copies what `_measure` has checked. Unsigned indices spare the look for negative ones: eight times as fast."""
    for i in range(len(starts)):
        start = starts[i]
        if start >= 0:
            length = 0
            for k in range(prefix):
                length |= int64(data[start + k]) << (8 * k)
            source, target = np.uint64(start + prefix), np.uint64(offsets[i])
            for k in range(np.uint64(length)):
                out[target + np.uint64(k)] = data[source + np.uint64(k)]
    return Fault.OK, 0
