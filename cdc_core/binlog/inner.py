"""What TRANSACTION_PAYLOAD events hold, for kernels: their fields, and the events inside once they are expanded.

Nothing here raises or allocates; a negative count means a damaged event.
Source: MySQL source documentation, "Transaction_payload_event".

An inner event has the `end` of its outer event. An outer event of more than STEP expanded bytes has an end of its own
for each STEP, between the outer event's start and end, so that a part of a large transaction has a position like any
other. The same bytes get the same positions, however they are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.events import HEADER, EventType
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, PAIR, int64, kernel, named, records
from cdc_core.compiled.memory import little, move

STEP = 1 << 18  # bytes; zstd needs at least 8 bytes for them, so there are enough offsets

FIELDS = np.dtype([("row", "<i8"), ("at", "<i8"), ("length", "<i8"), ("kind", "<i8"), ("size", "<i8")])
_INDEX, _OUT_INDEX = records(INDEX), records(INDEX, writable=True)
_END_MARK, _PAYLOAD_SIZE, _KIND, _SIZE = range(4)  # types of the fields before the payload
_PAYLOAD = int(EventType.TRANSACTION_PAYLOAD)
_OUTSIDE = (int(EventType.ROTATE), int(EventType.FORMAT_DESCRIPTION), _PAYLOAD)  # never inside a transaction


class Part(NamedTuple):
    """A part of a payload of `total` expanded bytes: it starts with byte `first`. `end` and `length` are the outer
    event's, and `size`, what its header says: with the checksum."""

    first: int
    total: int
    end: int
    length: int
    size: int


_PART = named(Part, *[types.int64] * 5)


@kernel(PAIR(BYTES, types.int64, types.int64))
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


@kernel(types.int64(BYTES, _INDEX, records(FIELDS, writable=True)))
def read_fields(data: Any, index: Any, fields: Any) -> int:
    """Fills `fields`, which has a row for each payload event with the event's index row. Returns the payload that is
    damaged, or -1.

    A missing kind is -1; a missing expanded size is the payload's own length."""
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


@kernel(PAIR(OUT_BYTES, types.int64, types.int64, _PART, _OUT_INDEX, types.int64))
def cut(data: Any, low: int, high: int, part: Part, index: Any, row: int) -> tuple[int, int]:
    """Cuts the whole events out of `data[low:high]`, which is a part of a payload. Fills `index` from `row` on, unless
    it is empty; then headers state the size of the outer event, as Canal has it. Returns how many events there are and
    where the last one ends; a count of -1 when one is damaged."""
    first, total, end, length, outer = part
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
            for k in range(4):
                data[at + 9 + k] = outer >> 8 * k & 0xFF
        count += 1
        at += size
    return count, at


@kernel(types.int64(BYTES, _INDEX, types.int64, types.int64, LONGS, OUT_BYTES, _OUT_INDEX))
def assemble(data: Any, index: Any, low: int, high: int, offsets: Any, into: Any, out: Any) -> int:
    """Writes index rows [low, high) again to `out`, for the data in `into`: expanded payloads are there already, at
    `offsets`; other events are copied there. Returns how many rows that makes, or -1 minus the row that is damaged.
    Only counts when `out` is empty."""
    count = int64(0)
    for i in range(low, high):
        event = index[i]
        place, stop = offsets[i - low], offsets[i - low + 1]
        if event.type == _PAYLOAD:
            size = little(data, int64(event.offset) + 9, 4)
            whole = Part(int64(0), stop - place, event.end, int64(event.length), size)
            found, at = cut(into, place, stop, whole, out, count)
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
