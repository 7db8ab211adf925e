"""The layout of rows events, for kernels: their header, and a row image walked value by value.

Nothing here raises or allocates. A negative end means that the bytes do not add up.
Source: MySQL source documentation, "Rows_event"; "Partial_update_rows_event".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from cdc_core.binlog.events import HEADER, EventType
from cdc_core.compiled.kernel import BYTES, INTS, PAIR, int64, kernel, named
from cdc_core.compiled.memory import little

LAYOUT = INTS  # of `schema.row_layout`
STARTS = types.int64[:, ::1]  # [column, image]: offset of a value, or one of the next three
DIFF, ABSENT, NULL = -3, -2, -1  # DIFF and below: the part of a JSON value that changed, whose bytes start at DIFF - it
_PREFIX = 15  # the bits of a layout that hold the width of the length prefix
_PARTIAL_JSON = 1  # value option: bits follow that name the JSON columns of which only the changes are logged


class Present(NamedTuple):
    """The bitmap of the columns that an image has: its offset, and how many bits are set."""

    at: int
    bits: int


_PRESENT = named(Present, types.int64, types.int64)
_HEADER = types.Tuple((_PRESENT, _PRESENT, types.int64))  # type: ignore[no-untyped-call]


@kernel(_PRESENT(BYTES, types.int64, types.int64))
def _present(data: Any, at: int, columns: int) -> Present:
    count = int64(0)
    for i in range(columns):
        count += data[at + (i >> 3)] >> (i & 7) & 1
    return Present(at, count)


@kernel(_HEADER(BYTES, types.int64, types.int64, types.int64, types.boolean))
def rows_header(data: Any, offset: int, length: int, columns: int, update: bool) -> tuple[Present, Present, int]:
    """What the images of a rows event have before and after (the same unless it is an update), and where the first
    image starts: -1 when the bytes do not add up or the event has another number of columns."""
    nothing = Present(int64(0), int64(0))
    stop = offset + length
    at = offset + HEADER + 8
    if at > stop:
        return nothing, nothing, -1
    if data[offset + 4] >= EventType.WRITE_ROWS:  # version 2: extra data, its length included in it
        if at + 2 > stop:
            return nothing, nothing, -1
        extra = little(data, at, 2)
        if extra < 2:
            return nothing, nothing, -1
        at += extra
    if at >= stop:
        return nothing, nothing, -1
    count, at = int64(data[at]), at + 1
    if count == 252:
        if at + 2 > stop:
            return nothing, nothing, -1
        count, at = little(data, at, 2), at + 2
    size = (count + 7) >> 3
    after = at + size if update else at
    first = after + size
    if count != columns or first > stop:
        return nothing, nothing, -1
    return _present(data, at, columns), _present(data, after, columns), first


@kernel(types.int64(BYTES, types.int64, types.int64, LAYOUT, _PRESENT, STARTS, types.int64))
def image_end(data: Any, at: int, stop: int, layout: Any, present: Present, starts: Any, image: int) -> int:
    """Where the image that starts at `at` ends, or -1. Writes where its values start to `starts[:, image]`, unless
    `starts` is empty."""
    columns = layout.size
    record = starts.shape[0] > 0
    full = present.bits == columns
    nulls = at
    at += (present.bits + 7) >> 3
    if at > stop:
        return -1
    bit = 0
    for column in range(columns):
        if not full and not data[present.at + (column >> 3)] >> (column & 7) & 1:
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


@kernel(PAIR(BYTES, types.int64, types.int64, LAYOUT))
def value_options(data: Any, at: int, stop: int, layout: Any) -> tuple[int, int]:
    """What precedes the after image in PARTIAL_UPDATE_ROWS: the offset of its bits, one for each JSON column of the
    table (-1: it has none), and where the image starts (-1: the bytes do not add up)."""
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
