"""DATE, TIME, DATETIME, TIMESTAMP and YEAR, in the forms of MySQL 5.6 and later and in the older ones.

Zero, partial and impossible dates (0000-00-00, 2024-01-00, 2023-02-31) are refused or made NULL, as `zero_dates` says.
TIME becomes microseconds, signed; YEAR 0000 stays 0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit, types

from cdc_core.binlog.columns.integers import gathered
from cdc_core.binlog.columns.kernel import (
    BYTES,
    LONGS,
    MALFORMED,
    OK,
    READ_BYTES,
    READ_LONGS,
    SHORT,
    ZERO_DATE,
    Answer,
    Bytes,
    Cells,
    Longs,
    fixed,
    int64,
    kernel,
)
from cdc_core.schema.table import Column

_TIMESTAMP, _DATE, _TIME, _DATETIME, _YEAR, _NEWDATE, _TIMESTAMP2, _DATETIME2, _TIME2 = (
    7,
    10,
    11,
    12,
    13,
    14,
    17,
    18,
    19,
)
_KINDS = {
    _YEAR: pa.int16(),
    _DATE: pa.date32(),
    _NEWDATE: pa.date32(),
    _TIME: pa.int64(),
    _TIME2: pa.int64(),
    _DATETIME: pa.timestamp("us"),
    _DATETIME2: pa.timestamp("us"),
    _TIMESTAMP: pa.timestamp("us", tz="UTC"),
    _TIMESTAMP2: pa.timestamp("us", tz="UTC"),
}
_SECOND = 1_000_000
_SCALES = (1, 10_000, 100, 1)  # microseconds of one unit, by the bytes of the fraction
_OLD = -1  # in place of the bytes of a fraction: the forms before MySQL 5.6, which have none


def arrow_type(column: Column) -> pa.DataType:
    return _KINDS[column.type_code]


def decode(cells: Cells) -> pa.Array:
    code, kind = cells.column.type_code, arrow_type(cells.column)
    if code == _YEAR:
        years = gathered(cells, 1)
        return fixed(kind, np.where(years == 0, 0, years + 1900).astype(np.int16), cells.present())
    values, present = np.zeros(len(cells), np.int64), cells.present()
    cells.check(_read(cells, values, present))
    return fixed(kind, values.astype(np.int32) if kind == pa.date32() else values, present)


def _read(cells: Cells, values: Longs, present: Bytes) -> Answer:
    """Fills in values, and takes away presence where a zero date becomes NULL."""
    code, strict = cells.column.type_code, cells.zero_dates == "fail"
    if code in (_DATE, _NEWDATE):
        return _dates(cells.data, cells.starts, strict, values, present)
    fraction = (cells.column.meta + 1) // 2 if code in (_TIMESTAMP2, _DATETIME2, _TIME2) else _OLD
    if code in (_TIME, _TIME2):
        return _times(cells.data, cells.starts, fraction, values)
    read = _datetimes if code in (_DATETIME, _DATETIME2) else _timestamps
    return read(cells.data, cells.starts, fraction, strict, values, present)


@njit(nogil=True)
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, year 0 included."""
    shifted = year - (month <= 2)
    era, of_era = shifted // 400, shifted % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@njit(nogil=True)
def _is_date(year: int, month: int, day: int) -> bool:
    """Year 0 with a month and a day is a date to MySQL."""
    if month < 1 or month > 12 or day < 1 or day > 31:
        return False
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if leap else 28)
    return day <= 30 or (month != 4 and month != 6 and month != 9 and month != 11)


@njit(nogil=True)
def _big(data: Bytes, start: int, width: int) -> int:
    value = 0
    for k in range(width):
        value = value << 8 | int64(data[start + k])
    return value


@njit(nogil=True)
def _little(data: Bytes, start: int, width: int) -> int:
    value = 0
    for k in range(width):
        value |= int64(data[start + k]) << (8 * k)
    return value


_DATED = (READ_BYTES, READ_LONGS, types.int64, types.boolean, LONGS, BYTES)


@kernel(READ_BYTES, READ_LONGS, types.boolean, LONGS, BYTES)
def _dates(data: Bytes, starts: Longs, strict: bool, values: Longs, present: Bytes) -> Answer:
    """Three bytes, little-endian: 15 bits of year, 4 of month, 5 of day."""
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + 3 > len(data):
            return SHORT, i
        packed = _little(data, start, 3)
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
        if year > 9999:
            return MALFORMED, i
        if _is_date(year, month, day):
            values[i] = _days(year, month, day)
        elif strict:
            return ZERO_DATE, i
        else:
            present[i] = 0
    return OK, 0


@kernel(*_DATED)
def _datetimes(data: Bytes, starts: Longs, fraction: int, strict: bool, values: Longs, present: Bytes) -> Answer:
    """Big-endian, offset by half its range: 17 bits of year * 13 + month, 5 of day, 5, 6 and 6 of time, a fraction.
    The old form is the decimal number YYYYMMDDhhmmss in eight bytes."""
    width = 8 if fraction == _OLD else 5 + fraction
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return SHORT, i
        micros = 0
        if fraction == _OLD:
            number = _little(data, start, 8)
            clock, date = number % 1_000_000, number // 1_000_000
            hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
            year, month, day = date // 10_000, date // 100 % 100, date % 100
        else:
            packed = _big(data, start, 5) - (1 << 39)
            hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
            months = packed >> 22
            year, month, day = months // 13, months % 13, packed >> 17 & 31
            micros = _big(data, start + 5, fraction) * _SCALES[fraction]
        if year < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or micros >= _SECOND:
            return MALFORMED, i
        if _is_date(year, month, day):
            seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
            values[i] = seconds * _SECOND + micros
        elif strict:
            return ZERO_DATE, i
        else:
            present[i] = 0
    return OK, 0


@kernel(*_DATED)
def _timestamps(data: Bytes, starts: Longs, fraction: int, strict: bool, values: Longs, present: Bytes) -> Answer:
    """Seconds since 1970 in four bytes, unsigned, big-endian with a fraction; the old form is little-endian.
    Second 0 is the zero timestamp, whatever its fraction: the first that MySQL allows is second 1."""
    width = 4 if fraction == _OLD else 4 + fraction
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return SHORT, i
        micros = 0
        if fraction == _OLD:
            seconds = _little(data, start, 4)
        else:
            seconds = _big(data, start, 4)
            micros = _big(data, start + 4, fraction) * _SCALES[fraction]
        if micros >= _SECOND:
            return MALFORMED, i
        if seconds:
            values[i] = seconds * _SECOND + micros
        elif strict:
            return ZERO_DATE, i
        else:
            present[i] = 0
    return OK, 0


@kernel(READ_BYTES, READ_LONGS, types.int64, LONGS)
def _times(data: Bytes, starts: Longs, fraction: int, values: Longs) -> Answer:
    """Big-endian, offset by half its range, the fraction included in the sign: 10 bits of hours, 6 and 6.
    The old form is the signed decimal number HHMMSS in three bytes."""
    width = 3 if fraction == _OLD else 3 + fraction
    for i in range(len(starts)):
        start = starts[i]
        if start < 0:
            continue
        if start + width > len(data):
            return SHORT, i
        micros = 0
        if fraction == _OLD:
            number = (_little(data, start, 3) << 40) >> 40
            clock = abs(number)
            hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
        else:
            number = _big(data, start, width) - (1 << (8 * width - 1))
            clock = abs(number)
            micros = (clock & ((1 << (8 * fraction)) - 1)) * _SCALES[fraction]
            clock >>= 8 * fraction
            hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
        if hour > 838 or minute > 59 or second > 59 or micros >= _SECOND:
            return MALFORMED, i
        total = (hour * 3600 + minute * 60 + second) * _SECOND + micros
        values[i] = -total if number < 0 else total
    return OK, 0
