"""Kernels that write UTF-8: sets of one byte a character through a table, UTF-16 and UTF-32 by their rules."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import OUT_BYTES, OUT_INTS, Bytes, helper, int64, kernel

Offsets = npt.NDArray[np.int32]
REPLACEMENT = 0xFFFD
NONE = -1  # stands for a character in tables: the code has none


def first_of_each(points: Iterable[int], known: set[int]) -> list[int]:
    """The code points, NONE for each that came before or is `known`; all of them are known then."""
    found = []
    for point in points:
        found.append(NONE if point in known else point)
        known.add(point)
    return found


@helper
def put_character(point: int, out: Bytes, at: int) -> int:
    """Writes one code point in UTF-8, at most four bytes; returns the end."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
        out[at + 1] = 0x80 | point & 0x3F
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | point >> 12
        out[at + 1] = 0x80 | point >> 6 & 0x3F
        out[at + 2] = 0x80 | point & 0x3F
        return at + 3
    out[at] = 0xF0 | point >> 18
    out[at + 1] = 0x80 | point >> 12 & 0x3F
    out[at + 2] = 0x80 | point >> 6 & 0x3F
    out[at + 3] = 0x80 | point & 0x3F
    return at + 4


@kernel(ANSWER(OUT_BYTES, OUT_INTS, types.int64[::1], OUT_BYTES, OUT_INTS))
def from_narrow(raw: Bytes, offsets: Offsets, letters: npt.NDArray[np.int64], out: Bytes, ends: Offsets) -> Answer:
    """One byte a character. `letters`: the code point of each byte, NONE for one that is not allowed."""
    at = 0
    for i in range(len(offsets) - 1):
        for k in range(offsets[i], offsets[i + 1]):
            if letters[raw[k]] < 0:
                return Fault.MALFORMED, i
            at = put_character(letters[raw[k]], out, at)
        if at > MAX_TEXT:
            return Fault.TOO_LARGE, i
        ends[i + 1] = at
    return Fault.OK, 0


@kernel(ANSWER(OUT_BYTES, OUT_INTS, types.int64, types.boolean, types.boolean, OUT_BYTES, OUT_INTS))
def from_wide(
    raw: Bytes, offsets: Offsets, unit: int, big_endian: bool, halves: bool, out: Bytes, ends: Offsets
) -> Answer:
    """Units of two bytes, with surrogates, or of four. `halves`: half a pair of surrogates becomes U+FFFD."""
    at = 0
    for i in range(len(offsets) - 1):
        low, high = int64(offsets[i]), int64(offsets[i + 1])
        if (high - low) % unit:
            return Fault.MALFORMED, i
        lead = 0
        for k in range(low, high, unit):
            point = 0
            for b in range(unit):
                point = point << 8 | int64(raw[k + b if big_endian else k + unit - 1 - b])
            trails = unit == 2 and 0xDC00 <= point < 0xE000
            if point > 0x10FFFF or (unit == 4 and 0xD800 <= point < 0xE000):
                return Fault.MALFORMED, i
            if trails != (lead > 0):
                if not halves:
                    return Fault.MALFORMED, i
                if lead:
                    at = put_character(REPLACEMENT, out, at)
                else:
                    point = REPLACEMENT
                lead = 0
            if 0xD800 <= point < 0xDC00:
                lead = point
                continue
            if lead:
                point = 0x10000 + ((lead - 0xD800) << 10) + point - 0xDC00
                lead = 0
            at = put_character(point, out, at)
        if lead and not halves:
            return Fault.MALFORMED, i
        if lead:
            at = put_character(REPLACEMENT, out, at)
        if at > MAX_TEXT:
            return Fault.TOO_LARGE, i
        ends[i + 1] = at
    return Fault.OK, 0
