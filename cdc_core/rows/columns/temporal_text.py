"""DATE, DATETIME and TIMESTAMP as the server prints them, in UTC, zero, partial and impossible dates included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numba import types

from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, Bytes, Longs, helper, kernel
from cdc_core.rows.columns.arrays import variable
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.moments import (
    DATE,
    DATETIME,
    DATETIME2,
    NEWDATE,
    OLD,
    SECOND,
    date_at,
    date_of,
    datetime_at,
    fraction_of,
    timestamp_at,
    width_of,
)

_DATE, _DATETIME, _TIMESTAMP = range(3)
_KINDS = {DATE: _DATE, NEWDATE: _DATE, DATETIME: _DATETIME, DATETIME2: _DATETIME}
_DAY = 86400


def decode(cells: Cells) -> pa.Array:
    column, present = cells.column, cells.present()
    kind = _KINDS.get(column.type_code, _TIMESTAMP)
    digits = 0 if fraction_of(column) == OLD else column.meta
    size = 10 if kind == _DATE else 19 + (digits > 0) + digits  # all texts of a column are equally long
    if size * len(cells) > MAX_TEXT:
        cells.check((Fault.TOO_LARGE, 0))
    offsets = np.zeros(len(cells) + 1, np.int32)
    offsets[1:] = size * np.cumsum(present, dtype=np.int32)
    out = np.empty(offsets[-1], np.uint8)
    cells.check(_print(cells.data, cells.starts, kind, width_of(column), fraction_of(column), digits, out))
    return variable(pa.string(), offsets, out, present)


def one(cells: Cells, image: int) -> str:
    """A single value, for errors."""
    return str(decode(replace(cells, starts=cells.starts[image : image + 1]))[0])


@helper
def _put(number: int, digits: int, before: int, out: Bytes, at: int) -> int:
    """Writes a character, unless it is 0, and so many digits; returns the end."""
    if before:
        out[at] = before
        at += 1
    for k in range(digits - 1, -1, -1):
        out[at + k] = 0x30 + number % 10
        number //= 10
    return at + digits


@kernel(ANSWER(BYTES, LONGS, types.int64, types.int64, types.int64, types.int64, OUT_BYTES))
def _print(data: Bytes, starts: Longs, kind: int, width: int, fraction: int, digits: int, out: Bytes) -> Answer:
    at = 0
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return Fault.SHORT, i
        second = micros = 0
        if kind == _DATE:
            year, month, day = date_at(data, start)
        elif kind == _DATETIME:
            year, month, day, second, micros = datetime_at(data, start, fraction)
        else:
            second, micros = timestamp_at(data, start, fraction)
            year = month = day = 0
            if second > 0:
                year, month, day = date_of(second // _DAY)
                second %= _DAY
        if second < 0 or micros >= SECOND or year > 9999:
            return Fault.MALFORMED, i
        at = _put(day, 2, 0x2D, out, _put(month, 2, 0x2D, out, _put(year, 4, 0, out, at)))
        if kind != _DATE:
            at = _put(second // 3600, 2, 0x20, out, at)
            at = _put(second % 60, 2, 0x3A, out, _put(second // 60 % 60, 2, 0x3A, out, at))
        if digits:
            at = _put(micros // 10 ** (6 - digits), digits, 0x2E, out, at)
    return Fault.OK, 0
