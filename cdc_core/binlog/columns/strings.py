"""CHAR, VARCHAR, TEXT and their binary kin: a length prefix, then bytes in the column's character set.

UTF-8 is copied and checked, other character sets are brought to UTF-8. BINARY(n) is filled up with zero bytes, which
the log leaves out; CHAR's trailing spaces are gone, as in SELECT. COMPRESSED columns of MariaDB are inflated first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from cdc_core.binlog.columns import charsets, inflate
from cdc_core.binlog.columns.kernel import (
    BYTES,
    INTS,
    MALFORMED,
    MAX_TEXT,
    OK,
    READ_BYTES,
    READ_LONGS,
    SHORT,
    TOO_LARGE,
    Answer,
    Bytes,
    Cells,
    Longs,
    int64,
    kernel,
    variable,
)
from cdc_core.schema.table import Column

_STRING = 254
_BLOBS = (249, 250, 251, 252, inflate.BLOB)  # TINY, MEDIUM, LONG, BLOB, MariaDB's compressed


def arrow_type(column: Column) -> pa.DataType:
    return pa.binary() if charsets.charset(column).is_binary else pa.string()


def decode(cells: Cells) -> pa.Array:
    column, charset = cells.column, charsets.charset(cells.column)
    width = column.meta if charset.is_binary and column.type_code == _STRING else 0
    raw, offsets = texts(cells, prefix_size(column), width)
    if column.type_code in (inflate.BLOB, inflate.VARCHAR):
        raw, offsets = inflate.inflated(cells, raw, offsets)
    present = cells.present()
    if charset.is_binary:
        return variable(pa.binary(), offsets, raw, present)
    if charset.is_utf8:
        return checked(cells, variable(pa.string(), offsets, raw, present))
    return charsets.to_utf8(cells, charset, raw, offsets)


def prefix_size(column: Column) -> int:
    """Bytes of the length before each value."""
    if column.type_code in _BLOBS:
        return column.meta
    return 1 if column.meta < 256 else 2


def texts(cells: Cells, prefix: int, width: int = 0) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """All values' bytes, one after the other, and their offsets. `width` is that of BINARY, else 0."""
    offsets = np.empty(len(cells) + 1, np.int32)
    cells.check(_measure(cells.data, cells.starts, prefix, width, offsets))
    out = np.zeros(offsets[-1], np.uint8) if width else np.empty(offsets[-1], np.uint8)
    _copy(cells.data, cells.starts, prefix, offsets, out)
    return out, offsets


def checked(cells: Cells, array: pa.Array) -> pa.Array:
    """The same array, known to be UTF-8: nothing later checks it."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise cells.error(_first_broken(array), "not UTF-8", "Mend the value at the source.") from None
    return array


def _first_broken(array: pa.Array) -> int:
    """Only on the way to an error: the image of the first value that is not UTF-8."""
    for image, value in enumerate(array.view(pa.binary()).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return image
    return 0


@kernel(READ_BYTES, READ_LONGS, types.int64, types.int64, INTS)
def _measure(data: Bytes, starts: Longs, prefix: int, width: int, offsets: npt.NDArray[np.int32]) -> Answer:
    total = 0
    offsets[0] = 0
    for i in range(len(starts)):
        start = starts[i]
        if start >= 0:
            if start + prefix > len(data):
                return SHORT, i
            length = 0
            for k in range(prefix):
                length |= int64(data[start + k]) << (8 * k)
            if start + prefix + length > len(data):
                return SHORT, i
            if width and length > width:
                return MALFORMED, i
            total += width if width else length
            if total > MAX_TEXT:
                return TOO_LARGE, i
        offsets[i + 1] = total
    return OK, 0


@kernel(READ_BYTES, READ_LONGS, types.int64, INTS, BYTES)
def _copy(data: Bytes, starts: Longs, prefix: int, offsets: npt.NDArray[np.int32], out: Bytes) -> Answer:
    """Copies what `_measure` has checked. Unsigned indices have no negative to look for: eight times as fast."""
    for i in range(len(starts)):
        start = starts[i]
        if start >= 0:
            length = 0
            for k in range(prefix):
                length |= int64(data[start + k]) << (8 * k)
            source, target = np.uint64(start + prefix), np.uint64(offsets[i])
            for k in range(np.uint64(length)):
                out[target + np.uint64(k)] = data[source + np.uint64(k)]
    return OK, 0
