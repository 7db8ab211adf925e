"""DECIMAL: decimal128, or text beyond 38 digits, from MySQL's packed form of nine digits in four bytes.

The digits before the point are grouped by nine from the right, those after it from the left; a group of fewer digits
takes fewer bytes. The first bit is flipped; a negative number has all bits flipped.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_INTS, Bytes, Longs, helper, int64, kernel
from cdc_core.rows.columns.arrays import fixed, variable
from cdc_core.rows.columns.cells import Cells
from cdc_core.schema.table import Column, unsupported

_DIGITS = 9  # to a group
_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes that hold so many digits
_POWERS = tuple(10**n for n in range(10))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MAX_PRECISION = 65


def arrow_type(column: Column) -> pa.DataType:
    precision, scale = _shape(column)
    if not 0 < precision <= _MAX_PRECISION or scale > precision:
        raise unsupported(column, f"a DECIMAL cannot have precision {precision} and scale {scale}")
    return pa.decimal128(precision, scale) if precision <= 38 else pa.string()


def decode(cells: Cells) -> pa.Array:
    precision, scale = _shape(cells.column)
    if precision > 38:
        return as_texts(cells)
    digits = [n for n in _groups(precision, scale) if n]
    sizes = np.array([_SIZES[n] for n in digits], np.int64)
    limits = np.array([_POWERS[n] for n in digits], np.int64)
    values = np.empty(2 * len(cells), np.uint64)
    cells.check(_pack(cells.data, cells.starts, sizes, limits, values))
    return fixed(pa.decimal128(precision, scale), values, cells.present())


def as_texts(cells: Cells) -> pa.Array:
    """As SELECT prints them: at most one zero before the point, all digits of the scale after it."""
    precision, scale = _shape(cells.column)
    width = precision + 3
    if len(cells) * width > MAX_TEXT:
        cells.check((Fault.TOO_LARGE, 0))
    out, offsets = np.empty(len(cells) * width, np.uint8), np.zeros(len(cells) + 1, np.int32)
    cells.check(_print(cells.data, cells.starts, precision, scale, out, offsets))
    return variable(pa.string(), offsets, out, cells.present())


def _shape(column: Column) -> tuple[int, int]:
    return column.meta >> 8, column.meta & 0xFF


def _groups(precision: int, scale: int) -> list[int]:
    """Digits of each group, in the order of the bytes."""
    whole = precision - scale
    before = [whole % _DIGITS] + [_DIGITS] * (whole // _DIGITS)
    return [*before, *[_DIGITS] * (scale // _DIGITS), scale % _DIGITS]


@kernel(ANSWER(BYTES, LONGS, LONGS, LONGS, types.uint64[::1]))
def _pack(data: Bytes, starts: Longs, sizes: Longs, limits: Longs, values: npt.NDArray[np.uint64]) -> Answer:
    """Multiplies group by group in 128 bits, kept as two halves of 64, then applies the sign in two's complement."""
    width = sizes.sum()
    for i in range(len(starts)):
        at = starts[i]
        low = high = np.uint64(0)
        if at >= 0:
            if at + width > len(data):
                return Fault.SHORT, i
            negative = data[at] < 0x80
            flip = 0xFF if negative else 0
            first = 0x80
            for g in range(len(sizes)):
                group = 0
                for _ in range(sizes[g]):
                    group = group << 8 | (int64(data[at]) ^ flip ^ first)
                    first = 0
                    at += 1
                if group >= limits[g]:
                    return Fault.MALFORMED, i
                factor = np.uint64(limits[g])
                right = (low & _LOW) * factor + np.uint64(group)
                left = (low >> _HALF) * factor + (right >> _HALF)
                low = left << _HALF | right & _LOW
                high = high * factor + (left >> _HALF)
            if negative:
                low = ~low + np.uint64(1)
                high = ~high + np.uint64(low == 0)
        values[2 * i] = low
        values[2 * i + 1] = high
    return Fault.OK, 0


@helper
def decimal_text(data: Bytes, start: int, limit: int, precision: int, scale: int, out: Bytes, at: int) -> int:
    """Prints a packed decimal at `at`, at most precision + 3 bytes; returns the end, or a negated Fault."""
    whole, rest = precision - scale, scale % _DIGITS
    groups = 2 + whole // _DIGITS + scale // _DIGITS
    if start >= limit:
        return -Fault.SHORT
    negative = data[start] < 0x80
    flip = 0xFF if negative else 0
    first = 0x80
    if negative:
        out[at] = 0x2D
        at += 1
    printed = False
    for g in range(groups):
        digits = _DIGITS
        if g == 0:
            digits = whole % _DIGITS
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
        if start + _SIZES[digits] > limit:
            return -Fault.SHORT
        group = 0
        for _ in range(_SIZES[digits]):
            group = group << 8 | (int64(data[start]) ^ flip ^ first)
            first = 0
            start += 1
        if group >= _POWERS[digits]:
            return -Fault.MALFORMED
        for k in range(digits - 1, -1, -1):
            digit = group // _POWERS[k] % 10
            if printed or digit:
                out[at] = 0x30 + digit
                at += 1
                printed = True
    return at


@kernel(ANSWER(BYTES, LONGS, types.int64, types.int64, OUT_BYTES, OUT_INTS))
def _print(
    data: Bytes, starts: Longs, precision: int, scale: int, out: Bytes, offsets: npt.NDArray[np.int32]
) -> Answer:
    at = 0
    for i in range(len(starts)):
        if starts[i] >= 0:
            end = decimal_text(data, starts[i], len(data), precision, scale, out, at)
            if end < 0:
                return -end, i
            at = end
        offsets[i + 1] = at
    return Fault.OK, 0
