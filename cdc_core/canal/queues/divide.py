"""Entries for messages in Canal's protobuf: whole ones, or one for each row where rows go to partitions.

Source: Canal's `MQMessageUtils.messagePartition`, `CanalMessageSerializerUtil`.
"""

from __future__ import annotations

from typing import Any

from numba import types

from cdc_core.canal.entries.kinds import EntryType
from cdc_core.canal.entries.wire import block_size, put_head, put_part
from cdc_core.canal.queues.route import FIXED, ROUTES, UNIT, Routes, note, read_routed
from cdc_core.canal.scan.cells import ENTRY_ROWS, EntryRows
from cdc_core.canal.scan.entries import ENTRY
from cdc_core.compiled.kernel import (
    BYTES,
    LONGS,
    OUT_BYTES,
    Bytes,
    Longs,
    helper,
    int64,
    kernel,
    records,
)


@helper
def _put_row(data: Bytes, entry: Any, row: Any, head: int, tail: int, out: Bytes, at: int) -> int:
    """Writes an entry of one row: the store value up to `head`, the row, the store value from `tail` on. Returns the
    end, -1 when the output is full."""
    store = head - entry.store + row.end - row.field + entry.store_end - tail
    whole = entry.header_end - entry.header + 2 + block_size(store)
    if at + block_size(whole) > len(out):
        return int64(-1)
    at = put_part(data, entry.header, entry.header_end, out, put_head(0x12, whole, out, at))
    out[at], out[at + 1] = 0x10, EntryType.ROWDATA
    at = put_part(data, entry.store, head, out, put_head(0x1A, store, out, at + 2))
    at = put_part(data, row.field, row.end, out, at)
    return put_part(data, tail, entry.store_end, out, at)


@kernel(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        BYTES,
        records(ENTRY),
        types.int64,
        ROUTES,
        types.boolean,
        ENTRY_ROWS,
        OUT_BYTES,
        records(UNIT, writable=True),
    )
)
def divide(
    data: Bytes,
    entries: Any,
    first: int,
    routes: Routes,
    boundaries: bool,
    found: EntryRows,
    out: Bytes,
    units: Any,
) -> tuple[int, int]:
    """Writes entries as `messages` fields, each a unit, from entry `first` on, as far as there is room. `boundaries`:
    the begins and ends of transactions too. `found` has room for the rows of the largest entry. Returns the next entry
    and the count of units."""
    at, count = int64(0), int64(0)
    for number in range(first, entries.size):
        entry = entries[number]
        route = routes.routes[entry.name]
        if entry.type != EntryType.ROWDATA and not boundaries:
            continue
        if entry.type != EntryType.ROWDATA or entry.rows == 0 or route.mode == FIXED:
            size = entry.end - entry.start
            if count >= units.size or at + block_size(size) > len(out):
                return number, count
            done = put_part(data, entry.start, entry.end, out, put_head(0x12, size, out, at))
            note(units[count], at, done, number, route.partition if entry.rows else route.statements, 0, entry.rows)
            count, at = count + 1, done
            continue
        if count + entry.rows > units.size or not read_routed(data, entry, routes, found):
            return number, count
        head, tail, done = found.rows[0].field, found.rows[entry.rows - 1].end, at
        for row in range(entry.rows):
            begun = done
            done = _put_row(data, entry, found.rows[row], head, tail, out, begun)
            if done < 0:
                return number, count
            note(units[count + row], begun, done, number, found.rows[row].partition, row, 1)
        count, at = count + entry.rows, done
    return int64(entries.size), count


@kernel(types.void(BYTES, LONGS, LONGS, OUT_BYTES))
def gather(data: Bytes, starts: Longs, ends: Longs, out: Bytes) -> None:
    """Copies ranges of `data` one after the other."""
    at = int64(0)
    for k in range(len(starts)):
        at = put_part(data, starts[k], ends[k], out, at)
