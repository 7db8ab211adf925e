"""Texts, decimals and moments of the binary protocol, for `columns`.

The cut has checked that each cell lies in the data. Moments become what they are in a row image, so that the decoder
reads them. Source: MySQL source documentation, "Binary Protocol Value".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_INTS, Bytes, Longs, helper, int64, kernel
from cdc_core.compiled.memory import little, move
from cdc_core.rows.columns.moments import SCALES, days_of, is_date
from spark_jobs.snapshot.resultset.cutter import text_at

DATE, DATETIME, TIMESTAMP, TIME = range(4)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_TEN, _SAFE = np.uint64(10), np.uint64(10**18)  # below it, another digit fits into 64 bits
_MOST_DIGITS = 38
_MINUS, _POINT, _ZERO = 0x2D, 0x2E, 0x30
_DAY = 86400


@kernel(ANSWER(BYTES, LONGS, OUT_INTS))
def measure_texts(data: Bytes, starts: Longs, offsets: npt.NDArray[np.int32]) -> Answer:
    """Where each text ends when all are joined."""
    total = int64(0)
    offsets[0] = 0
    for i in range(len(starts)):
        if starts[i] >= 0:
            total += text_at(data, starts[i])[0]
            if total > MAX_TEXT:
                return Fault.TOO_LARGE, i
        offsets[i + 1] = total
    return Fault.OK, 0


@kernel(types.void(BYTES, LONGS, OUT_INTS, OUT_BYTES))
def copy_texts(data: Bytes, starts: Longs, offsets: npt.NDArray[np.int32], out: Bytes) -> None:
    """Copies the texts that were measured."""
    for i in range(len(starts)):
        if starts[i] >= 0:
            length, start = text_at(data, starts[i])
            move(out, int64(offsets[i]), data, start, length)


@kernel(ANSWER(BYTES, LONGS, types.int64, types.uint64[::1]))
def read_decimals(data: Bytes, starts: Longs, scale: int, values: npt.NDArray[np.uint64]) -> Answer:
    """Reads texts with `scale` digits after the point, as pairs of 64 bits in two's complement."""
    for i in range(len(starts)):
        low = high = np.uint64(0)
        if starts[i] >= 0:
            length, at = text_at(data, starts[i])
            stop, negative, behind, digits = at + length, False, int64(-1), 0
            if length and data[at] == _MINUS:
                negative = True
                at += 1
            if at == stop:
                return Fault.MALFORMED, i
            while at < stop:
                if data[at] == _POINT and behind < 0:
                    behind = stop - at - 1
                else:
                    digit = np.uint64(data[at]) - np.uint64(_ZERO)
                    digits += 1 if digits or digit else 0
                    if digit >= _TEN or digits > _MOST_DIGITS:
                        return Fault.MALFORMED, i
                    if high == 0 and low < _SAFE:
                        low = low * _TEN + digit
                    else:
                        right = (low & _LOW) * _TEN + digit
                        left = (low >> _HALF) * _TEN + (right >> _HALF)
                        low = left << _HALF | right & _LOW
                        high = high * _TEN + (left >> _HALF)
                at += 1
            if max(behind, 0) != scale:
                return Fault.MALFORMED, i
            if negative:
                low = ~low + np.uint64(1)
                high = ~high + np.uint64(low == 0)
        values[2 * i], values[2 * i + 1] = low, high
    return Fault.OK, 0


@helper
def _put(number: int, width: int, big_endian: bool, out: Bytes, at: int) -> int:
    """Writes a number; returns the end."""
    for k in range(width):
        out[at + k] = number >> 8 * (width - 1 - k if big_endian else k) & 0xFF
    return at + width


@helper
def _date(data: Bytes, at: int, length: int) -> tuple[int, int, int, int, int]:
    """Year, month, day, second of the day, microseconds. What the server leaves out is 0; a day of -1 is damage."""
    if length == 0:
        return 0, 0, 0, 0, 0
    if length != 4 and length != 7 and length != 11:
        return 0, 0, -1, 0, 0
    year, month, day = little(data, at, 2), int64(data[at + 2]), int64(data[at + 3])
    second = micros = int64(0)
    if length > 4:
        hour, minute, second = int64(data[at + 4]), int64(data[at + 5]), int64(data[at + 6])
        if hour > 23 or minute > 59 or second > 59:
            return 0, 0, -1, 0, 0
        second += 3600 * hour + 60 * minute
    if length > 7:
        micros = little(data, at + 7, 4)
    if year > 9999 or month > 12 or day > 31 or micros > 999_999:
        return 0, 0, -1, 0, 0
    return year, month, day, second, micros


@helper
def _time(data: Bytes, at: int, length: int) -> tuple[int, int, bool]:
    """Seconds, microseconds, and whether they are negative. Seconds of -1 are damage."""
    if length == 0:
        return 0, 0, False
    if length != 8 and length != 12:
        return -1, 0, False
    hour, minute, second = int64(data[at + 5]), int64(data[at + 6]), int64(data[at + 7])
    hour += 24 * little(data, at + 1, 4)
    micros = little(data, at + 8, 4) if length > 8 else int64(0)
    if hour > 838 or minute > 59 or second > 59 or micros > 999_999:
        return -1, 0, False
    return 3600 * hour + 60 * minute + second, micros, data[at] != 0


@kernel(ANSWER(BYTES, LONGS, types.int64, types.int64, types.int64, OUT_BYTES))
def pack_moments(data: Bytes, starts: Longs, kind: int, fraction: int, width: int, out: Bytes) -> Answer:
    """Moments as row images have them, `width` bytes each, of which `fraction` bytes are the fraction's."""
    for i in range(len(starts)):
        if starts[i] < 0:
            continue
        length, at = text_at(data, starts[i])
        place = i * width
        if kind == TIME:
            second, micros, negative = _time(data, at, length)
            if second < 0:
                return Fault.MALFORMED, i
            clock = second // 3600 << 12 | second // 60 % 60 << 6 | second % 60
            packed = clock << 8 * fraction | micros // SCALES[fraction]
            _put((1 << 8 * width - 1) + (-packed if negative else packed), width, True, out, place)
            continue
        year, month, day, second, micros = _date(data, at, length)
        if day < 0:
            return Fault.MALFORMED, i
        if kind == DATE:
            _put(year << 9 | month << 5 | day, 3, False, out, place)
            continue
        if kind == DATETIME:
            clock = second // 3600 << 12 | second // 60 % 60 << 6 | second % 60
            place = _put((1 << 39) + ((year * 13 + month) << 22 | day << 17 | clock), 5, True, out, place)
        else:
            seconds = int64(0)
            if year or month or day:
                seconds = days_of(year, month, day) * _DAY + second
                if not is_date(year, month, day) or seconds < 0 or seconds >= 1 << 32:
                    return Fault.MALFORMED, i
            place = _put(seconds, 4, True, out, place)
        _put(micros // SCALES[fraction], fraction, True, out, place)
    return Fault.OK, 0
