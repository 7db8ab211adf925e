"""The values of one column as Canal's texts.

They are what Canal 1.1.8 prints: BLOB and BINARY as ISO-8859-1, ENUM and SET as numbers, TIMESTAMP in the service's
time zone, floating point in Java's form. Unlike Canal, text of any character set is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cdc_core.canal.entries import text_kernels as kernels
from cdc_core.charsets import charsets
from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.rows.columns import addresses, arrays, decimals, json_text, strings, temporal, temporal_text
from cdc_core.rows.columns.arrays import fixed
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.integers import gathered
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import unsupported

_GROUP = 9  # digits of a DECIMAL that are stored together
_QUARTER = 900  # seconds: zones change their offset at quarters of an hour
_WIDTHS = {Type.TINY: 1, Type.SHORT: 2, Type.INT24: 3, Type.LONG: 4, Type.LONGLONG: 8}
_PRINTED = (Type.DATE, Type.NEWDATE, Type.DATETIME, Type.DATETIME2)


@dataclass(frozen=True, slots=True)
class Texts:
    """Image i's text is `data[ends[i]:ends[i + 1]]`. `beyond` marks unsigned numbers beyond the signed range."""

    data: Bytes
    ends: Longs
    beyond: Bytes | None = None


def texts(cells: Cells) -> Texts:
    """The texts of one column, empty for NULL. Raises DecodeError for damaged values, SchemaError for a type that
    cannot be read."""
    column = cells.column
    if column.is_address:
        return of_array(addresses.decode(cells))
    maker = _MAKERS.get(Type(column.type_code))
    if maker is None:
        raise unsupported(column, f"type {column.type_code} is not supported")
    return maker(cells)


def of_array(array: pa.Array) -> Texts:
    """The texts of Arrow's strings."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1).astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return Texts(raw, ends)


def _integers(cells: Cells) -> Texts:
    width, unsigned = _WIDTHS[Type(cells.column.type_code)], cells.column.unsigned
    values = gathered(cells, width, signed=not unsigned)
    beyond = (values >> (8 * width - 1) & 1).astype(np.uint8) if unsigned else None
    return replace(_numbers(values, cells, unsigned=True), beyond=beyond) if unsigned else _numbers(values, cells)


def _numbers(values: Longs, cells: Cells, *, unsigned: bool = False) -> Texts:
    out, ends = _room(cells, kernels.INTEGER_TEXT)
    kernels.print_integers(values, cells.present(), unsigned, out, ends)
    return Texts(out, ends)


def _bits(cells: Cells) -> Texts:
    size = (cells.column.meta & 0xFF) + 8 * (cells.column.meta >> 8)
    return _numbers(gathered(cells, (size + 7) // 8, big_endian=True), cells, unsigned=True)


def _labels(cells: Cells) -> Texts:
    return _numbers(gathered(cells, cells.column.meta), cells, unsigned=True)


def _floats(cells: Cells) -> Texts:
    single = cells.column.type_code == Type.FLOAT
    if single:
        words = gathered(cells, 4).astype(np.uint32).view(np.float32).astype(np.float64).view(np.uint64)
    else:
        words = gathered(cells, 8).view(np.uint64)
    out, ends = _room(cells, kernels.DOUBLE_TEXT)
    kernels.print_doubles(words, cells.present(), single, out, ends)
    return Texts(out, ends)


def _decimals(cells: Cells) -> Texts:
    scale = cells.column.meta & 0xFF
    plain = of_array(decimals.as_texts(cells))
    out, ends = np.empty(len(plain.data), np.uint8), np.empty(len(cells) + 1, np.int64)
    kernels.print_decimals(plain.data, plain.ends, scale, scale % _GROUP, out, ends)
    return Texts(out, ends)


def _years(cells: Cells) -> Texts:
    years = gathered(cells, 1)
    spelled = ["0000", *(str(1900 + year) for year in range(1, 256))]
    return of_array(arrays.strings(spelled).take(fixed(pa.int64(), years, cells.present())))


def _dates(cells: Cells) -> Texts:
    return of_array(temporal_text.decode(cells))


def _times(cells: Cells) -> Texts:
    values = _longs(temporal.decode(cells))
    out, ends = _room(cells, kernels.TIME_TEXT)
    kernels.print_times(values, cells.present(), _digits(cells), out, ends)
    return Texts(out, ends)


def _timestamps(cells: Cells) -> Texts:
    plain = replace(cells, column=replace(cells.column, as_text=False), zero_dates="null")
    values = _longs(temporal.decode(plain))
    out, ends = _room(cells, kernels.MOMENT_TEXT)
    kernels.print_moments(values, _shifts(values // 1_000_000), cells.present(), _digits(cells), out, ends)
    return Texts(out, ends)


def _shifts(seconds: Longs) -> Longs:
    """How far east of UTC the clock of the service's time zone is at each second."""
    quarters, which = np.unique(seconds // _QUARTER, return_inverse=True)
    offsets = [time.localtime(quarter * _QUARTER).tm_gmtoff for quarter in quarters.tolist()]
    return np.array(offsets, np.int64)[which] if offsets else np.zeros(0, np.int64)


def _digits(cells: Cells) -> int:
    """Digits of the fraction; the types of before MySQL 5.6 have none."""
    return cells.column.meta if cells.column.type_code in (Type.TIME2, Type.TIMESTAMP2) else 0


def _longs(array: pa.Array) -> Longs:
    return np.frombuffer(array.buffers()[1], np.int64, len(array))


def _strings(cells: Cells) -> Texts:
    if not charsets.charset(cells.column).is_binary:
        return of_array(strings.decode(cells))
    unpadded = replace(cells, column=replace(cells.column, type_code=Type.VAR_STRING)) if _is_binary(cells) else cells
    return _latin1(strings.decode(unpadded))


def _is_binary(cells: Cells) -> bool:
    """BINARY(n), whose zero bytes at the end are not in the log."""
    return bool(cells.column.type_code == Type.STRING)


def _raw(cells: Cells) -> Texts:
    raw, offsets = strings.texts(cells, cells.column.meta)
    return _as_latin1(raw, offsets.astype(np.int64))


def _latin1(array: pa.Array) -> Texts:
    found = of_array(array)
    return _as_latin1(found.data, found.ends)


def _as_latin1(raw: Bytes, offsets: Longs) -> Texts:
    out, ends = np.empty(2 * len(raw), np.uint8), np.empty(len(offsets), np.int64)
    size = kernels.print_latin1(raw, offsets, out, ends)
    return Texts(out[:size], ends)


def _documents(cells: Cells) -> Texts:
    return of_array(json_text.decode(cells))


def _room(cells: Cells, most: int) -> tuple[Bytes, Longs]:
    """An empty output for texts of so many bytes at most."""
    return np.empty(most * len(cells), np.uint8), np.empty(len(cells) + 1, np.int64)


_MAKERS: dict[Type, Callable[[Cells], Texts]] = {
    **dict.fromkeys(_WIDTHS, _integers),
    **dict.fromkeys(_PRINTED, _dates),
    **dict.fromkeys((Type.FLOAT, Type.DOUBLE), _floats),
    **dict.fromkeys((Type.TIME, Type.TIME2), _times),
    **dict.fromkeys((Type.TIMESTAMP, Type.TIMESTAMP2), _timestamps),
    **dict.fromkeys((Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.MARIA_VARCHAR_COMPRESSED), _strings),
    **dict.fromkeys((Type.TINY_BLOB, Type.BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB), _strings),
    **dict.fromkeys((Type.ENUM, Type.SET), _labels),
    **dict.fromkeys((Type.GEOMETRY, Type.VECTOR), _raw),
    Type.MARIA_BLOB_COMPRESSED: _strings,
    Type.NEWDECIMAL: _decimals,
    Type.BIT: _bits,
    Type.YEAR: _years,
    Type.JSON: _documents,
}
