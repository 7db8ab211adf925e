"""The texts of values that a kernel prints itself, one at a time. Nothing raises: a fault is a negative length.

`data` has SLACK bytes after what belongs to it, as `out` has: words are read and written whole.
"""

from __future__ import annotations

import numpy as np

from cdc_core.canal.entries.digits import put_number, put_padded, put_pair
from cdc_core.compiled.fault import Fault
from cdc_core.compiled.kernel import Bytes, bare_helper, int64
from cdc_core.compiled.words import big_word, masked, word
from cdc_core.rows.columns.moments import date_at

_Word = np.uint64
_DIGITS = 9  # of a DECIMAL that are stored together
_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes that hold so many digits
_LIMITS = tuple(10**n for n in range(10))
_SCALES = (1, 10_000, 100, 1)  # microseconds of one unit, by the bytes of the fraction
_SECOND = 1_000_000
_HUNDRED = _Word(100)
_HIGH = _Word(0x8080808080808080)


@bare_helper
def put_signed(data: Bytes, start: int, width: int, out: Bytes, at: int) -> int:
    """An integer; returns the length."""
    rest = _Word(64 - 8 * width)
    value = int64(word(data, start) << rest) >> int64(rest)
    if value < 0:
        out[at] = 0x2D
        return put_number(_Word(-value), out, at + 1) - at
    return put_number(_Word(value), out, at) - at


@bare_helper
def unsigned(data: Bytes, start: int, width: int) -> np.uint64:
    return masked(word(data, start), width)


@bare_helper
def put_decimal(data: Bytes, start: int, precision: int, scale: int, out: Bytes, at: int) -> int:
    """A packed decimal as Canal's reader has it: without the last group of the fraction where that is 0, but with one 0
    where the fraction has no other; returns the length."""
    begin, whole, rest = at, precision - scale, scale % _DIGITS
    first, groups = whole % _DIGITS, 2 + whole // _DIGITS + scale // _DIGITS
    negative = data[start] < 0x80
    flip = 0xFF if negative else 0
    top = 0x80
    if negative:
        out[at] = 0x2D
        at += 1
    printed = False
    for g in range(groups):
        digits = _DIGITS
        if g == 0:
            digits = first
        elif g == groups - 1:
            digits = rest
        if g == 1 + whole // _DIGITS:
            if not printed:
                out[at] = 0x30
                at += 1
            if scale:
                out[at] = 0x2E
                at += 1
            printed = True
        group = int64(0)
        for _ in range(_SIZES[digits]):
            group = group << 8 | (int64(data[start]) ^ flip ^ top)
            top = 0
            start += 1
        if group >= _LIMITS[digits]:
            return -int64(Fault.MALFORMED)
        if g == groups - 1 and rest and group == 0:
            if rest == scale:
                out[at] = 0x30
                at += 1
        elif printed:
            at = put_padded(_Word(group), digits, out, at)
        elif group:
            at = put_number(_Word(group), out, at)
            printed = True
    return at - begin


@bare_helper
def _put_date(year: int, month: int, day: int, out: Bytes, at: int) -> None:
    put_pair(_Word(year) // _HUNDRED, out, at)
    put_pair(_Word(year) % _HUNDRED, out, at + 2)
    out[at + 4] = 0x2D
    put_pair(_Word(month), out, at + 5)
    out[at + 7] = 0x2D
    put_pair(_Word(day), out, at + 8)


@bare_helper
def put_date(data: Bytes, start: int, out: Bytes, at: int) -> int:
    """A DATE; returns the length."""
    year, month, day = date_at(data, start)
    if year > 9999:
        return -int64(Fault.MALFORMED)
    _put_date(year, month, day, out, at)
    return int64(10)


@bare_helper
def put_datetime(data: Bytes, start: int, fraction: int, digits: int, out: Bytes, at: int) -> int:
    """A DATETIME of MySQL 5.6 and later; returns the length."""
    packed = int64(big_word(data, start) >> _Word(24)) - (int64(1) << 39)
    micros = int64(0)
    for k in range(fraction):
        micros = micros << 8 | int64(data[start + 5 + k])
    micros *= _SCALES[fraction]
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    months = packed >> 22
    if packed < 0 or months >= 130_000 or hour > 23 or minute > 59 or second > 59 or micros >= _SECOND:
        return -int64(Fault.MALFORMED)
    _put_date(months // 13, months % 13, packed >> 17 & 31, out, at)
    out[at + 10], out[at + 13], out[at + 16] = 0x20, 0x3A, 0x3A
    put_pair(_Word(hour), out, at + 11)
    put_pair(_Word(minute), out, at + 14)
    put_pair(_Word(second), out, at + 17)
    if digits == 0:
        return int64(19)
    out[at + 19] = 0x2E
    put_padded(_Word(micros), 6, out, at + 20)
    return 20 + digits


@bare_helper
def length_of(data: Bytes, start: int, prefix: int) -> int:
    """The length in front of a text."""
    return int64(masked(word(data, start), prefix))


@bare_helper
def is_utf8(data: Bytes, at: int, size: int) -> bool:
    """Whether these bytes are text."""
    end, seen = at + size, _Word(0)
    while at + 8 <= end:
        seen |= word(data, at)
        at += 8
    if at < end:
        seen |= masked(word(data, at), end - at)
    return seen & _HIGH == _Word(0) or _is_utf8(data, end - size, end)


@bare_helper
def _is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Source: RFC 3629, section 4."""
    while at < end:
        first = int64(data[at])
        at += 1
        if first < 0x80:
            continue
        low, high, more = int64(0x80), int64(0xBF), int64(0)
        if 0xC2 <= first <= 0xDF:
            more = int64(1)
        elif 0xE0 <= first <= 0xEF:
            more = int64(2)
            if first == 0xE0:
                low = int64(0xA0)
            elif first == 0xED:
                high = int64(0x9F)
        elif 0xF0 <= first <= 0xF4:
            more = int64(3)
            if first == 0xF0:
                low = int64(0x90)
            elif first == 0xF4:
                high = int64(0x8F)
        else:
            return False
        if at + more > end or not low <= data[at] <= high:
            return False
        for k in range(1, more):
            if data[at + k] & 0xC0 != 0x80:
                return False
        at += more
    return True
