"""How the log stores dates and times, for kernels. The calendar is the proleptic Gregorian.

DATE is three bytes, little-endian: 15 bits of year, 4 of month, 5 of day. DATETIME is big-endian, offset by half its
range: 17 bits of year * 13 + month, 5 of day, 5, 6 and 6 of time, a fraction; its old form is the decimal number
YYYYMMDDhhmmss in eight bytes. TIMESTAMP is unsigned seconds since 1970 in four bytes, big-endian with a fraction; its
old form is little-endian.
"""

from __future__ import annotations

from cdc_core.compiled.kernel import Bytes, helper, int64
from cdc_core.compiled.memory import little
from cdc_core.schema.table import Column

TIMESTAMP, DATE, TIME, DATETIME, YEAR, NEWDATE, TIMESTAMP2, DATETIME2, TIME2 = 7, 10, 11, 12, 13, 14, 17, 18, 19
SECOND = 1_000_000  # microseconds
SCALES = (1, 10_000, 100, 1)  # microseconds of one unit, by the bytes of the fraction
OLD = -1  # in place of the bytes of a fraction: the forms before MySQL 5.6, which have none
Date = tuple[int, int, int]  # year, month, day
Moment = tuple[int, int, int, int, int]  # year, month, day, second of the day (-1: malformed), microseconds


def fraction_of(column: Column) -> int:
    """Bytes of the fraction, or OLD."""
    return (column.meta + 1) // 2 if column.type_code in (TIMESTAMP2, DATETIME2, TIME2) else OLD


def width_of(column: Column) -> int:
    """Bytes of a DATE, DATETIME or TIMESTAMP."""
    whole = {DATE: 3, NEWDATE: 3, DATETIME: 8, TIMESTAMP: 4, DATETIME2: 5, TIMESTAMP2: 4}[column.type_code]
    return whole + max(fraction_of(column), 0)


@helper
def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, year 0 included."""
    shifted = year - (month <= 2)
    era, of_era = shifted // 400, shifted % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@helper
def is_date(year: int, month: int, day: int) -> bool:
    """Year 0 with a month and a day is a date to MySQL."""
    if month < 1 or month > 12 or day < 1 or day > 31:
        return False
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if leap else 28)
    return day <= 30 or (month != 4 and month != 6 and month != 9 and month != 11)


@helper
def big(data: Bytes, start: int, width: int) -> int:
    value = 0
    for k in range(width):
        value = value << 8 | int64(data[start + k])
    return value


@helper
def date_of(days: int) -> Date:
    """The date so many days after 1970-01-01."""
    shifted = days + 719468
    era, of_era = shifted // 146097, shifted % 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day


@helper
def date_at(data: Bytes, start: int) -> Date:
    packed = little(data, start, 3)
    return packed >> 9, packed >> 5 & 15, packed & 31


@helper
def datetime_at(data: Bytes, start: int, fraction: int) -> Moment:
    micros = 0
    if fraction == OLD:
        number = little(data, start, 8)
        clock, date = number % 1_000_000, number // 1_000_000
        hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
        year, month, day = date // 10_000, date // 100 % 100, date % 100
    else:
        packed = big(data, start, 5) - (1 << 39)
        hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
        months = packed >> 22
        year, month, day = months // 13, months % 13, packed >> 17 & 31
        micros = big(data, start + 5, fraction) * SCALES[fraction]
    if year < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or micros >= SECOND:
        return year, month, day, -1, 0
    return year, month, day, hour * 3600 + minute * 60 + second, micros


@helper
def timestamp_at(data: Bytes, start: int, fraction: int) -> tuple[int, int]:
    """Seconds, and microseconds, which are malformed from SECOND on."""
    if fraction == OLD:
        return little(data, start, 4), 0
    return big(data, start, 4), big(data, start + 4, fraction) * SCALES[fraction]
