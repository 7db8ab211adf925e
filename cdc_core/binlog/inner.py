"""The compiled cut of what TRANSACTION_PAYLOAD events hold: their fields, and the events inside once inflated.

Nothing here raises or allocates; a negative count names the event that is damaged.
Source: MySQL source documentation, "Transaction_payload_event".

An inner event's `end` is that of its outer event. In an outer event of more than STEP bytes inflated, what lies before
its last STEP ends earlier: each STEP has a place of its own between the outer event's start and end, so that a part of
a large transaction has a position like any other. The same bytes give the same places, however they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from cdc_core.binlog.events import HEADER, EventType
from cdc_core.binlog.images import BYTES, TWO, int64, little
from cdc_core.moving import move
from cdc_core.source.block import INDEX

STEP = 1 << 18  # zstd spends at least 8 bytes on so many, so there are places enough

FIELDS = np.dtype([("row", "<i8"), ("at", "<i8"), ("length", "<i8"), ("kind", "<i8"), ("size", "<i8")])
_INDEX = types.Array(from_dtype(INDEX), 1, "C", readonly=True)
_END_MARK, _PAYLOAD_SIZE, _KIND, _SIZE = range(4)  # types of the fields before the payload
_PAYLOAD = int(EventType.TRANSACTION_PAYLOAD)
_OUTSIDE = (4, 15, _PAYLOAD)  # ROTATE, FORMAT_DESCRIPTION and another payload are in no transaction


@njit(TWO(BYTES, types.int64, types.int64), nogil=True, cache=True)
def _packed(data: Any, at: int, stop: int) -> tuple[int, int]:
    """A length-encoded number and where it ends, or -1 and -1."""
    if at >= stop:
        return -1, -1
    first = int64(data[at])
    if first < 251:
        return first, at + 1
    size = 2 if first == 252 else 3 if first == 253 else 8 if first == 254 else 0
    if size == 0 or at + 1 + size > stop:
        return -1, -1
    value = little(data, at + 1, size)
    return (value, at + 1 + size) if value >= 0 else (-1, -1)


@njit(types.int64(BYTES, _INDEX, from_dtype(FIELDS)[::1]), nogil=True, cache=True)
def read_fields(data: Any, index: Any, fields: Any) -> int:
    """Fills `fields`, one row a payload event whose `row` in the index is set. Returns -1, or the one that is damaged.

    A kind that is not told is -1; a payload whose inflated size is not told is as long as it is."""
    for f in range(fields.size):
        event = index[fields[f].row]
        at, stop = int64(event.offset) + HEADER, int64(event.offset) + int64(event.length)
        length, kind, size = int64(-1), int64(-1), int64(-1)
        if stop > data.size:
            return f
        while True:
            what, at = _packed(data, at, stop)
            if what == _END_MARK or at < 0:
                break
            width, at = _packed(data, at, stop)
            if at < 0 or width > stop - at:
                at = -1
                break
            value, end = _packed(data, at, at + width)
            if what <= _SIZE and end < 0:
                at = -1
                break
            if what == _PAYLOAD_SIZE:
                length = value
            elif what == _KIND:
                kind = value
            elif what == _SIZE:
                size = value
            at += width
        if at < 0 or (length >= 0 and length != stop - at):
            return f
        fields[f].at, fields[f].length, fields[f].kind = at, stop - at, kind
        fields[f].size = size if size >= 0 else stop - at
    return -1


@njit(
    TWO(
        BYTES, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64,
        from_dtype(INDEX)[::1], types.int64,
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def cut(
    data: Any, low: int, high: int, first: int, total: int, end: int, length: int, index: Any, row: int
) -> tuple[int, int]:
    """The whole events in `data[low:high]`, which is a payload of `total` bytes from its byte `first` on.

    `end` and `length` are the outer event's. Fills `index` from `row` on, if it has any rows. Returns how many events
    there are and where the last ends; a count of -1 when one is damaged."""
    at, count = low, 0
    last = (total - 1) // STEP
    while high - at >= HEADER:
        size = little(data, at + 9, 4)
        if size < HEADER or size > total - first - (at - low) or data[at + 4] in _OUTSIDE:
            return -1, at
        if at + size > high:
            break
        if index.size > 0:
            step = (first + at - low + size - 1) // STEP
            event = index[row + count]
            event.end = end if step == last else end - length + 1 + step
            event.offset, event.length = at, size
            event.timestamp, event.type = little(data, at, 4), data[at + 4]
            event.flags = little(data, at + 17, 2)
            event.rows, event.row_base, event.schema, event.kind = 0, 0, -1, 0
        count += 1
        at += size
    return count, at


@njit(
    types.int64(
        BYTES, _INDEX, types.int64, types.int64, types.int64[::1], types.uint8[::1], from_dtype(INDEX)[::1]
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def assemble(data: Any, index: Any, low: int, high: int, offsets: Any, into: Any, out: Any) -> int:
    """Index rows [low, high) anew, over `into`: payloads are there already, inflated, at `offsets`; other events are
    copied there. Returns how many rows that makes, or -1 minus the row that is damaged. Without `out` it only counts.
    """
    count = int64(0)
    for i in range(low, high):
        event = index[i]
        place, stop = offsets[i - low], offsets[i - low + 1]
        if event.type == _PAYLOAD:
            found, at = cut(into, place, stop, 0, stop - place, event.end, int64(event.length), out, count)
            if found < 0 or at != stop:
                return -1 - i
            count += found
            continue
        if out.size > 0:
            offset = int64(event.offset)
            move(into, place, data, offset, stop - place)
            out[count] = event
            out[count].offset = place
        count += 1
    return count
