"""Numbers in decimal, two digits at a time, for kernels. What prints may write up to SLACK bytes beyond."""

from __future__ import annotations

import numpy as np

from cdc_core.compiled.kernel import Bytes, bare_helper, int64
from cdc_core.compiled.words import copy2

_Word = np.uint64
_PAIRS = np.frombuffer("".join(f"{number:02d}" for number in range(100)).encode(), np.uint8)
_TEN, _HUNDRED, _TWO = _Word(10), _Word(100), _Word(2)


@bare_helper
def put_pair(value: np.uint64, out: Bytes, at: int) -> None:
    """Writes a number below 100 as two digits."""
    copy2(out, at, _PAIRS, int64(value * _TWO))


@bare_helper
def count_digits(value: np.uint64) -> int:
    """Characters of a number."""
    count, limit = int64(1), _TEN
    while count < 20 and value >= limit:
        count += 1
        limit *= _TEN
    return count


@bare_helper
def put_number(value: np.uint64, out: Bytes, at: int) -> int:
    """Writes a number without leading zeros; returns the end."""
    end = at + count_digits(value)
    place = end
    while value >= _HUNDRED:
        rest = value // _HUNDRED
        place -= 2
        put_pair(value - rest * _HUNDRED, out, place)
        value = rest
    if value >= _TEN:
        put_pair(value, out, at)
    else:
        out[at] = 48 + value
    return end


@bare_helper
def put_padded(value: np.uint64, digits: int, out: Bytes, at: int) -> int:
    """Writes a number with so many digits, which are enough; returns the end."""
    place = at + digits
    while place > at + 1:
        rest = value // _HUNDRED
        place -= 2
        put_pair(value - rest * _HUNDRED, out, place)
        value = rest
    if place > at:
        out[at] = 48 + value
    return at + digits
