"""DATE, TIME, DATETIME, TIMESTAMP and YEAR, in the forms of MySQL 5.6 and later and in the older ones.

Zero, partial and impossible dates (0000-00-00, 2024-01-00, 2023-02-31) are refused or become NULL, as `zero_dates`
says; in a column that is read as text (`Column.as_text`) they are text like all others.
TIME becomes microseconds, signed; YEAR 0000 stays 0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import types

from cdc_core.compiled.fault import ANSWER, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_LONGS, Bytes, Longs, kernel
from cdc_core.compiled.memory import little
from cdc_core.rows.columns import temporal_text
from cdc_core.rows.columns.arrays import fixed
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.integers import gathered
from cdc_core.rows.columns.moments import (
    DATE,
    DATETIME,
    DATETIME2,
    NEWDATE,
    OLD,
    SCALES,
    SECOND,
    TIME,
    TIME2,
    TIMESTAMP,
    TIMESTAMP2,
    YEAR,
    big,
    date_at,
    datetime_at,
    days_of,
    fraction_of,
    is_date,
    timestamp_at,
    width_of,
)
from cdc_core.schema.table import Column

_KINDS = {
    YEAR: pa.int16(),
    DATE: pa.date32(),
    NEWDATE: pa.date32(),
    TIME: pa.int64(),
    TIME2: pa.int64(),
    DATETIME: pa.timestamp("us"),
    DATETIME2: pa.timestamp("us"),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TIMESTAMP2: pa.timestamp("us", tz="UTC"),
}


def arrow_type(column: Column) -> pa.DataType:
    return pa.string() if column.as_text else _KINDS[column.type_code]


def decode(cells: Cells) -> pa.Array:
    code, kind = cells.column.type_code, arrow_type(cells.column)
    if cells.column.as_text:
        return temporal_text.decode(cells)
    if code == YEAR:
        years = gathered(cells, 1)
        return fixed(kind, np.where(years == 0, 0, years + 1900).astype(np.int16), cells.present())
    values, present = np.zeros(len(cells), np.int64), cells.present()
    answer = _read(cells, values, present)
    if answer[0] == Fault.ZERO_DATE:
        hint = "Set sluice.zero.dates to null or string, or correct the row at the source."
        raise cells.error(answer[1], f"a zero or partial date, {temporal_text.one(cells, answer[1])}", hint)
    cells.check(answer)
    return fixed(kind, values.astype(np.int32) if kind == pa.date32() else values, present)


def _read(cells: Cells, values: Longs, present: Bytes) -> Answer:
    """Fills `values`, and clears `present` where a zero date becomes NULL."""
    column, strict = cells.column, cells.zero_dates == "fail"
    if column.type_code in (TIME, TIME2):
        return _times(cells.data, cells.starts, fraction_of(column), values)
    read = _READERS[column.type_code]
    return read(cells.data, cells.starts, width_of(column), fraction_of(column), strict, values, present)


_DATED = (BYTES, LONGS, types.int64, types.int64, types.boolean, OUT_LONGS, OUT_BYTES)


@kernel(ANSWER(*_DATED))
def _dates(data: Bytes, starts: Longs, width: int, _: int, strict: bool, values: Longs, present: Bytes) -> Answer:
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return Fault.SHORT, i
        year, month, day = date_at(data, start)
        if year > 9999:
            return Fault.MALFORMED, i
        if is_date(year, month, day):
            values[i] = days_of(year, month, day)
        elif strict:
            return Fault.ZERO_DATE, i
        else:
            present[i] = 0
    return Fault.OK, 0


@kernel(ANSWER(*_DATED))
def _datetimes(
    data: Bytes, starts: Longs, width: int, fraction: int, strict: bool, values: Longs, present: Bytes
) -> Answer:
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return Fault.SHORT, i
        year, month, day, second, micros = datetime_at(data, start, fraction)
        if second < 0:
            return Fault.MALFORMED, i
        if is_date(year, month, day):
            values[i] = (days_of(year, month, day) * 86400 + second) * SECOND + micros
        elif strict:
            return Fault.ZERO_DATE, i
        else:
            present[i] = 0
    return Fault.OK, 0


@kernel(ANSWER(*_DATED))
def _timestamps(
    data: Bytes, starts: Longs, width: int, fraction: int, strict: bool, values: Longs, present: Bytes
) -> Answer:
    """Second 0 is the zero timestamp, whatever its fraction: the first that MySQL allows is second 1."""
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return Fault.SHORT, i
        seconds, micros = timestamp_at(data, start, fraction)
        if micros >= SECOND:
            return Fault.MALFORMED, i
        if seconds:
            values[i] = seconds * SECOND + micros
        elif strict:
            return Fault.ZERO_DATE, i
        else:
            present[i] = 0
    return Fault.OK, 0


@kernel(ANSWER(BYTES, LONGS, types.int64, OUT_LONGS))
def _times(data: Bytes, starts: Longs, fraction: int, values: Longs) -> Answer:
    """Big-endian, offset by half its range, the fraction included in the sign: 10 bits of hours, 6 and 6.
    The old form is the signed decimal number HHMMSS in three bytes."""
    width = 3 if fraction == OLD else 3 + fraction
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return Fault.SHORT, i
        micros = 0
        if fraction == OLD:
            number = (little(data, start, 3) << 40) >> 40
            clock = abs(number)
            hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
        else:
            number = big(data, start, width) - (1 << (8 * width - 1))
            clock = abs(number)
            micros = (clock & ((1 << (8 * fraction)) - 1)) * SCALES[fraction]
            clock >>= 8 * fraction
            hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
        if hour > 838 or minute > 59 or second > 59 or micros >= SECOND:
            return Fault.MALFORMED, i
        total = (hour * 3600 + minute * 60 + second) * SECOND + micros
        values[i] = -total if number < 0 else total
    return Fault.OK, 0


_READERS = {DATE: _dates, NEWDATE: _dates, DATETIME: _datetimes, DATETIME2: _datetimes}
_READERS |= {TIMESTAMP: _timestamps, TIMESTAMP2: _timestamps}
