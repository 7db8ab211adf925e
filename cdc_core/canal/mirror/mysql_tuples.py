"""Rows as the tuples of an INSERT in MySQL's SQL, written by a kernel from the bytes of their entries."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.canal.mirror.columns import NUMBER, RAW, Columns, EntryImages
from cdc_core.canal.scan.cells import AFTER, CELL, read_cells
from cdc_core.canal.scan.entries import ROW, read_field
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, Bytes, Longs, helper, int64, kernel, named, records

_PART = 4  # numbers of a part: the start and end of a store value, the first row and the one after the last
_CELL, _ROW = 6, 4  # bytes at most of a value besides its text (NULL and a comma), of a row besides its values
_HEX = 0x78  # the x before bytes
_NULL = np.frombuffer(b"NULL", np.uint8)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def _escapes() -> Bytes:
    """The letter after a backslash, 0 for a byte that stands for itself."""
    table = np.zeros(256, np.uint8)
    for byte, letter in zip(b"\\'\0\n\r\x1a", b"\\'0nrZ", strict=True):
        table[byte] = letter
    return table


_ESCAPES = _escapes()


class _Order(NamedTuple):
    """By column of the target: its place in the image, how its value is written, and the bytes that it has at least.
    `width`: the columns of the image. `times`: how many columns of the target have one of them, at most."""

    places: Any
    forms: Any
    sizes: Any
    width: Any
    times: Any


_ORDER = named(_Order, LONGS, LONGS, LONGS, types.int64, types.int64)


def tuples(images: EntryImages) -> str | None:
    """Returns `(...), (...)`, or None if a value does not fit its type; reading the values one by one shows which.

    A byte of a value becomes at most two, in each column of the target that has the value."""
    order = _order(images.columns)
    stores = [part.rows.store for part in images.parts]
    ends = np.cumsum([0, *map(len, stores)])
    ranges = [(part.low, part.high) for part in images.parts]
    parts = np.column_stack([ends[:-1], ends[1:], np.array(ranges, np.int64)]).ravel()
    parts.flags.writeable = False
    most = _ROW + sum(_CELL + 2 * size for size in order.sizes.tolist())
    out = np.empty(2 * order.times * int(ends[-1]) + len(images) * most, np.uint8)
    size = _put_tuples(np.frombuffer(b"".join(stores), np.uint8), parts, order, np.empty(2 * order.width, CELL), out)
    return None if size < 0 else out[:size].tobytes().decode()


@lru_cache(maxsize=256)
def _order(columns: Columns) -> _Order:
    times = max(Counter(columns.places).values(), default=0)
    return _Order(_frozen(columns.places), _frozen(columns.forms), _frozen(columns.sizes), columns.width, times)


def _frozen(values: tuple[int, ...]) -> Longs:
    array = np.array(values, np.int64)
    array.flags.writeable = False
    return array


@helper
def _put_text(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    out[at] = 0x27
    at += 1
    for k in range(start, end):
        byte = data[k]
        escape = _ESCAPES[byte]
        if escape:
            out[at] = 0x5C
            at += 1
            byte = escape
        out[at] = byte
        at += 1
    out[at] = 0x27
    return at + 1


@helper
def _put_number(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Writes the digits of a number; -1 for anything else."""
    if start == end:
        return int64(-1)
    for k in range(start, end):
        if not 0x30 <= data[k] <= 0x39:
            return int64(-1)
        out[at] = data[k]
        at += 1
    return at


@helper
def _put_hex(data: Bytes, start: int, end: int, size: int, out: Bytes, at: int) -> int:
    """Writes a text of ISO-8859-1 as bytes, with zeros up to `size` of them; -1 for another text."""
    out[at], out[at + 1] = _HEX, 0x27
    at += 2
    first = at
    while start < end:
        byte = int64(data[start])
        if byte >= 0x80:
            start += 1
            if byte > 0xC3 or start == end:
                return int64(-1)
            byte = (byte & 0x03) << 6 | int64(data[start]) & 0x3F
        out[at], out[at + 1] = _DIGITS[byte >> 4], _DIGITS[byte & 0x0F]
        at += 2
        start += 1
    while at - first < 2 * size:
        out[at] = 0x30
        at += 1
    out[at] = 0x27
    return at + 1


@helper
def _put_tuple(data: Bytes, start: int, end: int, order: _Order, cells: Any, out: Bytes, at: int) -> int:
    """Writes a row; -1 for one that is not as the order has it, or for which there is no room."""
    count = read_cells(data, start, end, cells, int64(0))
    first = int64(0)
    while first < count and cells[first].image != AFTER:
        first += 1
    if count - first != order.width:
        return int64(-1)
    out[at] = 0x28
    at += 1
    for k in range(len(order.places)):
        cell = cells[first + order.places[k]]
        if at + _CELL + 2 * max(cell.value_end - cell.value, order.sizes[k]) >= len(out):
            return int64(-1)
        if k:
            out[at], out[at + 1] = 0x2C, 0x20
            at += 2
        if cell.null:
            for i in range(len(_NULL)):
                out[at + i] = _NULL[i]
            at += len(_NULL)
        elif order.forms[k] == NUMBER:
            at = _put_number(data, cell.value, cell.value_end, out, at)
        elif order.forms[k] == RAW:
            at = _put_hex(data, cell.value, cell.value_end, order.sizes[k], out, at)
        else:
            at = _put_text(data, cell.value, cell.value_end, out, at)
        if at < 0:
            return int64(-1)
    out[at] = 0x29
    return at + 1


@kernel(types.int64(BYTES, LONGS, _ORDER, records(CELL, writable=True), OUT_BYTES))
def _put_tuples(data: Bytes, parts: Longs, order: _Order, cells: Any, out: Bytes) -> int:
    """Writes the rows of all parts. Returns the end, -1 for a row that is not as the order has it, or for which there
    is not enough room."""
    at = int64(0)
    for part in range(0, len(parts), _PART):
        place, number = parts[part], int64(0)
        while place < parts[part + 1] and number < parts[part + 3]:
            field, start, end, _long = read_field(data, place)
            if field == ROW:
                if number >= parts[part + 2]:
                    if at + _ROW > len(out):
                        return int64(-1)
                    if at:
                        out[at], out[at + 1] = 0x2C, 0x20
                        at += 2
                    at = _put_tuple(data, start, end, order, cells, out, at)
                    if at < 0:
                        return int64(-1)
                number += 1
            place = end
    return at
