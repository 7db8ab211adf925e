"""Doubles as MySQL prints them in JSON: the shortest digits that read back as the same number.

The digits are found by Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020); the form is MySQL's:
plain from 1e-15 up to 15 digits before the point, with an exponent beyond, and `.0` after a whole number (MySQL 5.7
leaves that out, and so prints a double as if it were an integer).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc_core.compiled.kernel import Bytes, helper, int64

Word = np.uint64

_K_MIN, _K_MAX = -292, 324
_PLAIN_MIN, _PLAIN_MAX = -14, 15  # places of the point within which MySQL prints no exponent
_LOW = np.uint64(0xFFFFFFFF)
_HALF, _ONE, _TWO, _TEN = np.uint64(32), np.uint64(1), np.uint64(2), np.uint64(10)
_FRACTION = np.uint64((1 << 52) - 1)
_HIDDEN = np.uint64(1 << 52)
_SIGN = np.uint64(1 << 63)


def _powers() -> npt.NDArray[np.uint64]:
    """10**k as 128 bits, rounded up, the first bit set: high and low word for each k."""
    words = []
    for k in range(_K_MIN, _K_MAX + 1):
        shift = 127 - (k * 1741647 >> 19)
        above, below = 10 ** max(k, 0) << max(shift, 0), 10 ** max(-k, 0) << max(-shift, 0)
        words.append(divmod(-(-above // below), 1 << 64))
    return np.array(words, np.uint64)


_POWERS = _powers()


@helper
def _product(a: Word, b: Word) -> tuple[Word, Word]:
    """High and low word of a product."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    right, left = a0 * b0, a1 * b1
    cross, other = a0 * b1, a1 * b0
    middle = (right >> _HALF) + (cross & _LOW) + (other & _LOW)
    return left + (cross >> _HALF) + (other >> _HALF) + (middle >> _HALF), middle << _HALF | right & _LOW


@helper
def _rounded_to_odd(high: Word, low: Word, factor: Word) -> Word:
    carry, _ = _product(low, factor)
    top, bottom = _product(high, factor)
    bottom += carry
    if bottom < carry:
        top += _ONE
    return top | Word(bottom > _ONE)


@helper
def shortest(bits: Word) -> tuple[Word, int]:
    """Digits and power of ten of a positive finite double."""
    fraction = bits & _FRACTION
    exponent = int64(bits >> np.uint64(52))
    number, power = fraction, -1074
    if exponent:
        number, power = fraction | _HIDDEN, exponent - 1075
    closer = fraction == 0 and exponent > 1  # the lower neighbour is half as far away
    k = (power * 1262611 - (524031 if closer else 0)) >> 22
    shift = np.uint64(power + (-k * 1741647 >> 19) + 1)
    high, low = _POWERS[-k - _K_MIN, 0], _POWERS[-k - _K_MIN, 1]
    odd = number & _ONE
    quadruple = number << _TWO
    value = _rounded_to_odd(high, low, quadruple << shift)
    lower = _rounded_to_odd(high, low, (quadruple - _TWO + Word(closer)) << shift) + odd
    upper = _rounded_to_odd(high, low, (quadruple + _TWO) << shift) - odd
    digits = value >> _TWO
    if digits >= _TEN:
        fewer = digits // _TEN
        below, above = lower <= fewer * np.uint64(40), fewer * np.uint64(40) + np.uint64(40) <= upper
        if below != above:
            return fewer + Word(above), k + 1
    below, above = lower <= digits << _TWO, (digits + _ONE) << _TWO <= upper
    if below != above:
        return digits + Word(above), k
    middle = (digits << _TWO) + _TWO
    up = value > middle or (value == middle and digits & _ONE)
    return digits + Word(up), k


@helper
def put_unsigned(value: Word, out: Bytes, at: int) -> int:
    """Writes a decimal number; returns the end."""
    rest = value // _TEN
    end = at + 1
    while rest:
        rest //= _TEN
        end += 1
    for k in range(end - 1, at - 1, -1):
        out[k] = np.uint64(48) + value % _TEN
        value //= _TEN
    return end


@helper
def put_double(bits: Word, out: Bytes, at: int) -> int:
    """Writes a finite double, at most 40 bytes; returns the end."""
    if bits & _SIGN:
        out[at] = 0x2D
        at += 1
    bits &= ~_SIGN
    digits, power = Word(0), 0
    if bits:
        digits, power = shortest(bits)
        while digits % _TEN == 0:
            digits //= _TEN
            power += 1
    end = put_unsigned(digits, out, at)
    point = end - at + power  # the place of the point, counted from the first digit
    if point < _PLAIN_MIN or point > _PLAIN_MAX:
        return _exponential(out, at, end, point - 1)
    if power >= 0:
        for _ in range(power):
            out[end] = 0x30
            end += 1
        out[end], out[end + 1] = 0x2E, 0x30
        return end + 2
    return _with_point(out, at, end, point)


@helper
def _with_point(out: Bytes, at: int, end: int, point: int) -> int:
    """Sets a point among the digits, or `0.` and zeros before them."""
    shift = 1 if point > 0 else 2 - point
    for k in range(end - 1, at - 1 + max(point, 0), -1):
        out[k + shift] = out[k]
    if point <= 0:
        for k in range(shift):
            out[at + k] = 0x30
    out[at + max(point, 1)] = 0x2E
    return end + shift


@helper
def _exponential(out: Bytes, at: int, end: int, exponent: int) -> int:
    """A point after the first digit, and an exponent."""
    if end - at > 1:
        end = _with_point(out, at, end, 1)
    out[end] = 0x65
    end += 1
    if exponent < 0:
        out[end] = 0x2D
        end += 1
    return put_unsigned(np.uint64(abs(exponent)), out, end)
