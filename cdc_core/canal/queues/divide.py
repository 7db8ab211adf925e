"""Entries for messages in Canal's protobuf: whole ones, or one for each row where rows go to partitions.

Source: Canal's `MQMessageUtils.messagePartition`, `CanalMessageSerializerUtil`.
"""

from __future__ import annotations

from typing import Any

from numba import types

from cdc_core.canal.entries.wire import block_size, put_head, put_part
from cdc_core.canal.queues.flat_kernel import MESSAGE
from cdc_core.canal.queues.route import FIXED, ROUTES, Routes, rows_of
from cdc_core.canal.queues.scan import ENTRY, read_field
from cdc_core.compiled.kernel import (
    BYTES,
    LONGS,
    OUT_BYTES,
    OUT_INTS,
    OUT_LONGS,
    Bytes,
    Longs,
    helper,
    int64,
    kernel,
    records,
)

_ROWDATA = 2


@helper
def _put_row(data: Bytes, entry: Any, first: int, place: int, row_end: int, tail: int, out: Bytes, at: int) -> int:
    """An entry of one row: what stands before the `first` one, the row, what stands from `tail` on. -1 when the output
    is full."""
    store = first - entry.store + row_end - place + entry.store_end - tail
    whole = entry.header_end - entry.header + 2 + block_size(store)
    if at + block_size(whole) > len(out):
        return int64(-1)
    at = put_part(data, entry.header, entry.header_end, out, put_head(0x12, whole, out, at))
    out[at], out[at + 1] = 0x10, _ROWDATA
    at = put_part(data, entry.store, first, out, put_head(0x1A, store, out, at + 2))
    at = put_part(data, place, row_end, out, at)
    return put_part(data, tail, entry.store_end, out, at)


@kernel(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        BYTES,
        records(ENTRY),
        types.int64,
        ROUTES,
        types.boolean,
        OUT_LONGS,
        OUT_INTS,
        OUT_BYTES,
        records(MESSAGE, writable=True),
    )
)
def divide(
    data: Bytes,
    entries: Any,
    first: int,
    routes: Routes,
    boundaries: bool,
    places: Longs,
    chosen: Any,
    out: Bytes,
    messages: Any,
) -> tuple[int, int]:
    """Writes entries as `messages` fields, each with its partition, from entry `first` on, as far as the output has
    room. `boundaries`: the begins and ends of transactions too. Returns the next entry and the count."""
    at, count = int64(0), int64(0)
    for number in range(first, entries.size):
        entry = entries[number]
        route = routes.routes[entry.name]
        if entry.type != _ROWDATA and not boundaries:
            continue
        if entry.type != _ROWDATA or entry.rows == 0 or route.mode == FIXED:
            size = entry.end - entry.start
            if count >= messages.size or at + block_size(size) > len(out):
                return number, count
            done = put_part(data, entry.start, entry.end, out, put_head(0x12, size, out, at))
            message = messages[count]
            message.start, message.end, message.entry, message.part, message.rows = at, done, number, 0, entry.rows
            message.partition = route.partition if entry.rows else route.statements
            count, at = count + 1, done
            continue
        rows_of(data, entries, number, routes, places, chosen)
        _last, _start, tail, _long = read_field(data, places[entry.rows - 1])
        before = count
        for row in range(entry.rows):
            _field, _start, row_end, _long = read_field(data, places[row])
            if count >= messages.size:
                return number, before
            done = _put_row(data, entry, places[0], places[row], row_end, tail, out, at)
            if done < 0:
                return number, before
            message = messages[count]
            message.start, message.end, message.entry, message.part, message.rows = at, done, number, row, 1
            message.partition = chosen[row]
            count, at = count + 1, done
    return int64(entries.size), count


@kernel(types.void(BYTES, LONGS, LONGS, OUT_BYTES))
def gather(data: Bytes, starts: Longs, ends: Longs, out: Bytes) -> None:
    """Copies ranges of `data` one behind the other."""
    at = int64(0)
    for k in range(len(starts)):
        at = put_part(data, starts[k], ends[k], out, at)
