"""Kernels that print values as Canal does, one text after the other: `ends[i + 1]` is where image i's text ends.

Numbers of floating point have the form of Java's `Double.toString`: plain from 10^-3 up to 10^7, else with an exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cdc_core.canal.entries.wire import put_digits
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_LONGS, Bytes, Longs, helper, int64, kernel
from cdc_core.rows.columns.json_double import put_unsigned, shortest
from cdc_core.rows.columns.moments import date_of

INTEGER_TEXT, DOUBLE_TEXT, TIME_TEXT, MOMENT_TEXT = 20, 26, 17, 26  # bytes at most
_SECOND, _DAY = 1_000_000, 86400
_TEN = np.uint64(10)
_EXPONENT, _INFINITE = np.uint64(0x7FF << 52), np.uint64(0x7FF << 52)
_SIGN = np.uint64(1 << 63)
_LEAST, _LEAST_POWER = 4.940656458412465, -324  # the least positive double and its power of ten


@kernel(types.void(LONGS, BYTES, types.boolean, OUT_BYTES, OUT_LONGS))
def print_integers(values: Longs, present: Bytes, unsigned: bool, out: Bytes, ends: Longs) -> None:
    """`unsigned`: values of 64 bits are in two's complement."""
    at = int64(0)
    ends[0] = at
    for i in range(len(values)):
        value = values[i]
        if present[i]:
            if value < 0:
                magnitude = np.uint64(value)
                if not unsigned:
                    out[at] = 0x2D
                    at += 1
                    magnitude = ~magnitude + np.uint64(1)
                at = put_unsigned(magnitude, out, at)
            else:
                at = put_digits(value, out, at)
        ends[i + 1] = at


@helper
def _word(text: Bytes, out: Bytes, at: int) -> int:
    for k in range(len(text)):
        out[at + k] = text[k]
    return at + len(text)


@helper
def _fewest(bits: np.uint64, single: bool) -> tuple[np.uint64, int]:
    """The digits and the power of ten of a positive number: as few as read back as the same, but the nearest of those
    with two digits where one would do."""
    digits, power = shortest(bits)
    while digits % _TEN == np.uint64(0):
        digits //= _TEN
        power += 1
    if bits & _EXPONENT == np.uint64(0) and digits < _TEN:
        return _two_digits(bits)
    if single:
        count = 1
        limit = np.uint64(10)
        while count < 20 and digits >= limit:
            count += 1
            if count == 20:
                break
            limit *= _TEN
        value = np.float32(np.float64(digits) * 10.0 ** np.float64(power))
        for keep in range(2, min(count, 10)):
            scale = np.uint64(1)
            for _ in range(count - keep):
                scale *= _TEN
            rounded, rest = digits // scale, digits % scale * np.uint64(2)
            if rest > scale or (rest == scale and rounded & np.uint64(1)):
                rounded += np.uint64(1)
            if np.float32(np.float64(rounded) * 10.0 ** np.float64(power + count - keep)) == value:
                digits, power = rounded, power + count - keep
                break
        while digits % _TEN == np.uint64(0):
            digits //= _TEN
            power += 1
    return digits, power


@helper
def _two_digits(bits: np.uint64) -> tuple[np.uint64, int]:
    """The same of a denormal number: two digits, the second of them perhaps 0."""
    value, power = np.float64(bits) * _LEAST, _LEAST_POWER
    while value >= 100.0:
        value /= 10.0
        power += 1
    while value < 10.0:
        value *= 10.0
        power -= 1
    digits = np.uint64(value + 0.5)
    while digits % _TEN == np.uint64(0):
        digits //= _TEN
        power += 1
    return digits, power


_NAN = np.frombuffer(b"NaN", np.uint8)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)


@helper
def _put_double(bits: np.uint64, single: bool, out: Bytes, at: int) -> int:
    """Writes a double as Java does; returns the end. Source: Java SE 19, `Double.toString`."""
    if bits & _EXPONENT == _EXPONENT and bits & ~(_SIGN | _EXPONENT):
        return _word(_NAN, out, at)
    if bits & _SIGN:
        out[at] = 0x2D
        at += 1
        bits &= ~_SIGN
    if bits == _INFINITE:
        return _word(_INFINITY, out, at)
    digits, power = np.uint64(0), 0
    if bits:
        digits, power = _fewest(bits, single)
    first = at
    end = put_unsigned(digits, out, at)
    size = end - first
    point = size + power  # digits before the point
    if bits and (point < -2 or point > 7):
        for k in range(end - 1, first, -1):
            out[k + 1] = out[k]
        out[first + 1] = 0x2E
        end += 1
        if size == 1:
            out[first + 2] = 0x30
            end = first + 3
        out[end] = 0x45
        end += 1
        exponent = point - 1
        if exponent < 0:
            out[end] = 0x2D
            end += 1
            exponent = -exponent
        return put_digits(exponent, out, end)
    if power >= 0:
        for _ in range(power):
            out[end] = 0x30
            end += 1
        out[end], out[end + 1] = 0x2E, 0x30
        return end + 2
    if point > 0:
        for k in range(end - 1, first + point - 1, -1):
            out[k + 1] = out[k]
        out[first + point] = 0x2E
        return end + 1
    shift = 2 - point
    for k in range(end - 1, first - 1, -1):
        out[k + shift] = out[k]
    for k in range(shift):
        out[first + k] = 0x30
    out[first + 1] = 0x2E
    return end + shift


@kernel(types.void(types.Array(types.uint64, 1, "C", readonly=True), BYTES, types.boolean, OUT_BYTES, OUT_LONGS))
def print_doubles(values: Any, present: Bytes, single: bool, out: Bytes, ends: Longs) -> None:
    """The bits of doubles; `single`: they are as exact as a FLOAT."""
    at = int64(0)
    ends[0] = at
    for i in range(len(values)):
        if present[i]:
            at = _put_double(values[i], single, out, at)
        ends[i + 1] = at


@helper
def _two(value: int, before: int, out: Bytes, at: int) -> int:
    """Writes a character, unless it is 0, and two digits; returns the end."""
    if before:
        out[at] = before
        at += 1
    out[at], out[at + 1] = 0x30 + value // 10 % 10, 0x30 + value % 10
    return at + 2


@helper
def _fraction(micros: int, digits: int, out: Bytes, at: int) -> int:
    """Writes a point and so many digits of a second's fraction; returns the end."""
    if digits == 0:
        return at
    out[at] = 0x2E
    for _ in range(6 - digits):
        micros //= 10
    for k in range(digits, 0, -1):
        out[at + k] = 0x30 + micros % 10
        micros //= 10
    return at + 1 + digits


@kernel(types.void(LONGS, BYTES, types.int64, OUT_BYTES, OUT_LONGS))
def print_times(values: Longs, present: Bytes, digits: int, out: Bytes, ends: Longs) -> None:
    """TIME in microseconds: `-838:59:59.000000`."""
    at = int64(0)
    ends[0] = at
    for i in range(len(values)):
        if present[i]:
            value = values[i]
            if value < 0:
                out[at] = 0x2D
                at += 1
                value = -value
            second = value // _SECOND
            hour = second // 3600
            at = put_digits(hour, out, at) if hour > 99 else _two(hour, 0, out, at)
            at = _two(second % 60, 0x3A, out, _two(second // 60 % 60, 0x3A, out, at))
            at = _fraction(value % _SECOND, digits, out, at)
        ends[i + 1] = at


@kernel(types.void(LONGS, LONGS, BYTES, types.int64, OUT_BYTES, OUT_LONGS))
def print_moments(values: Longs, shifts: Longs, present: Bytes, digits: int, out: Bytes, ends: Longs) -> None:
    """TIMESTAMP in microseconds since 1970, `shifts` seconds east of UTC; 0 is the zero timestamp."""
    at = int64(0)
    ends[0] = at
    for i in range(len(values)):
        if present[i]:
            second, micros = values[i] // _SECOND, values[i] % _SECOND
            year = month = day = int64(0)
            if second > 0:
                second += shifts[i]
                year, month, day = date_of(second // _DAY)
                second %= _DAY
            at = _two(year % 100, 0, out, _two(year // 100, 0, out, at))
            at = _two(day, 0x2D, out, _two(month, 0x2D, out, at))
            at = _two(second // 3600, 0x20, out, at)
            at = _two(second % 60, 0x3A, out, _two(second // 60 % 60, 0x3A, out, at))
            at = _fraction(micros, digits, out, at)
        ends[i + 1] = at


@kernel(types.void(BYTES, LONGS, types.int64, types.int64, OUT_BYTES, OUT_LONGS))
def print_decimals(texts: Bytes, offsets: Longs, scale: int, rest: int, out: Bytes, ends: Longs) -> None:
    """Decimals as Canal's reader has them: the last `rest` digits of the fraction are left out where all of them are 0;
    a fraction without digits is one 0."""
    at = int64(0)
    ends[0] = at
    for i in range(len(offsets) - 1):
        start, end = offsets[i], offsets[i + 1]
        if end > start and rest > 0:
            zeros = 0
            while zeros < rest and texts[end - 1 - zeros] == 0x30:
                zeros += 1
            if zeros == rest:
                end -= rest - (1 if rest == scale else 0)
        for k in range(start, end):
            out[at] = texts[k]
            at += 1
        ends[i + 1] = at


@kernel(types.int64(BYTES, LONGS, OUT_BYTES, OUT_LONGS))
def print_latin1(raw: Bytes, offsets: Longs, out: Bytes, ends: Longs) -> int:
    """Each byte as the character of its number: ISO-8859-1 in UTF-8. Returns the bytes written."""
    at = np.uint64(0)
    ends[0] = 0
    for i in range(len(offsets) - 1):
        for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            value = raw[np.uint64(k)]
            if value < 0x80:
                out[at] = value
                at += np.uint64(1)
            else:
                out[at] = 0xC0 | value >> 6
                out[at + np.uint64(1)] = 0x80 | value & 0x3F
                at += np.uint64(2)
        ends[i + 1] = int64(at)
    return int64(at)
