"""The compiled core of the decoder: headers of rows events, and one row image walked value by value.

Nothing here raises or allocates. A negative end means that the bytes do not add up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from cdc_core.binlog.events import HEADER

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
LAYOUT = types.Array(types.int32, 1, "C", readonly=True)
STARTS = types.int64[:, ::1]
TWO = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
_FIVE = types.UniTuple(types.int64, 5)  # type: ignore[no-untyped-call]
int64: Callable[[Any], int] = np.int64  # type: ignore[assignment]  # in kernels: typed as what it is there, a machine word
DIFF, ABSENT, NULL = -3, -2, -1  # in `starts`; DIFF and below: what changed of a JSON value, which starts at DIFF - it
_PREFIX = 15  # of a layout: what is left are the bytes of the length prefix
_PARTIAL_JSON = 1  # a row's value options: bits follow that tell which JSON columns have what changed alone


@njit(types.int64(BYTES, types.int64, types.int64), nogil=True, cache=True)
def little(data: Any, at: int, size: int) -> int:
    """`size` bytes as a little-endian number. Unsigned indices have no negative to look for."""
    value, start = np.uint64(0), np.uint64(at)
    for i in range(np.uint64(size)):
        value |= np.uint64(data[start + np.uint64(i)]) << np.uint64(8 * i)
    return int64(value)


@njit(types.int64(BYTES, types.int64, types.int64), nogil=True, cache=True)
def _bits(data: Any, at: int, columns: int) -> int:
    """How many of the first `columns` bits are set."""
    count = 0
    for i in range(columns):
        count += data[at + (i >> 3)] >> (i & 7) & 1
    return count


@njit(_FIVE(BYTES, types.int64, types.int64, types.int64, types.boolean), nogil=True, cache=True)
def rows_header(data: Any, offset: int, length: int, columns: int, update: bool) -> tuple[int, int, int, int, int]:
    """Of a rows event: offsets of its two presence bitmaps (the same one unless an update), how many bits each has,
    and where its first image starts: -1 when the bytes do not add up or the column count is another."""
    stop = offset + length
    at = offset + HEADER + 8
    if at > stop:
        return 0, 0, 0, 0, -1
    if data[offset + 4] >= 30:  # version 2: extra data, its length included in it
        if at + 2 > stop:
            return 0, 0, 0, 0, -1
        extra = little(data, at, 2)
        if extra < 2:
            return 0, 0, 0, 0, -1
        at += extra
    if at + 3 > stop:
        return 0, 0, 0, 0, -1
    count, at = int64(data[at]), at + 1
    if count == 252:
        count, at = little(data, at, 2), at + 2
    size = (count + 7) >> 3
    before = at
    after = at + size if update else at
    at = after + size
    if count != columns or at > stop:
        return 0, 0, 0, 0, -1
    return before, after, _bits(data, before, columns), _bits(data, after, columns), at


@njit(
    types.int64(BYTES, types.int64, types.int64, LAYOUT, types.int64, types.int64, STARTS, types.int64),
    nogil=True,
    cache=True,
)
def image_end(data: Any, at: int, stop: int, layout: Any, present: int, width: int, starts: Any, image: int) -> int:
    """Where the image that starts at `at` ends, or -1. Its values' places go to `starts[:, image]`, if there are any.

    `present` is the offset of the presence bitmap, `width` the number of bits set in it."""
    columns = layout.size
    record = starts.shape[0] > 0
    full = width == columns
    nulls = at
    at += (width + 7) >> 3
    if at > stop:
        return -1
    bit = 0
    for column in range(columns):
        if not full and not data[present + (column >> 3)] >> (column & 7) & 1:
            if record:
                starts[column, image] = ABSENT
            continue
        if data[nulls + (bit >> 3)] >> (bit & 7) & 1:
            if record:
                starts[column, image] = NULL
        else:
            if record:
                starts[column, image] = at
            size = int64(layout[column])
            if size < 0:
                prefix = -size & _PREFIX
                if at + prefix > stop:
                    return -1
                size = little(data, at, prefix) + prefix
            at += size
            if at > stop:
                return -1
        bit += 1
    return at


@njit(TWO(BYTES, types.int64, types.int64, LAYOUT), nogil=True, cache=True)
def value_options(data: Any, at: int, stop: int, layout: Any) -> tuple[int, int]:
    """What stands before the after image in PARTIAL_UPDATE_ROWS: the offset of its bits, one a JSON column of the table
    (-1: there are none), and where the image starts (-1: the bytes do not add up)."""
    if at >= stop or data[at] > 250:
        return -1, -1
    options, at = int64(data[at]), at + 1
    if not options & _PARTIAL_JSON:
        return -1, at
    documents = 0
    for column in range(layout.size):
        documents += layout[column] < -_PREFIX
    end = at + ((documents + 7) >> 3)
    return (at, end) if end <= stop else (-1, -1)
