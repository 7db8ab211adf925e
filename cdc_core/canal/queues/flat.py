"""Entries as Canal's flat messages: JSON that a kernel writes from the entries' bytes.

One entry is one message, or several: one for each partition that its rows belong to, and each so short that a broker
takes it. The keys are in alphabetical order. Rows are rendered once, as entries: finding their texts there again is a
twentieth of a message of one row (docs/benchmarks.md, "Where a message's time goes").
Source: Canal's `FlatMessage`, `MQMessageUtils.messageConverter`.
"""

from __future__ import annotations

from typing import Any

from numba import types

from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import numbers
from cdc_core.canal.queues.flat_text import (
    BATCH,
    CHANGED,
    DATA,
    ESCAPED,
    JAVA_TYPES,
    KEY_NAMES,
    KEYS,
    MYSQL_TYPES,
    OLD,
    SQL,
    SQL_TYPE,
    VALUES,
    FlatBatch,
    put_cells,
    put_head,
    put_null,
    put_tail,
    put_text,
    room_of,
)
from cdc_core.canal.queues.route import FIXED, ROUTES, UNIT, Routes, note, read_routed
from cdc_core.canal.scan.cells import BEFORE, ENTRY_ROWS, EntryRows, shown
from cdc_core.canal.scan.entries import ENTRY, read_field
from cdc_core.compiled.kernel import BYTES, OUT_BYTES, Bytes, helper, int64, kernel, records
from cdc_core.rows.columns.json_scalar import put_quoted

(_SQL,) = numbers(declared.RowChange, "sql")


@helper
def _put_statement(data: Bytes, entry: Any, batch: FlatBatch, out: Bytes, at: int) -> int:
    """Writes a message without rows; returns the end, -1 when the output is full."""
    sql = sql_end = int64(0)
    place = entry.store
    while place < entry.store_end:
        number, start, end, long = read_field(data, place)
        if number == _SQL and long:
            sql, sql_end = start, end
        place = end
    if at + room_of(entry) + ESCAPED * (sql_end - sql) > len(out):
        return int64(-1)
    at = put_null(out, put_text(DATA, out, at))
    at = put_null(out, put_head(data, entry, batch, out, at))
    at = put_null(out, put_text(OLD, out, at))
    at = put_null(out, put_text(KEYS, out, at))
    at = put_quoted(data, sql, sql_end, out, put_text(SQL, out, at))
    at = put_null(out, put_text(SQL_TYPE, out, at))
    return put_tail(data, entry, batch, out, at)


@helper
def _put_rows(
    data: Bytes,
    entry: Any,
    number: int,
    routes: Routes,
    batch: FlatBatch,
    found: EntryRows,
    out: Bytes,
    at: int,
    units: Any,
    count: int,
) -> tuple[int, int]:
    """Writes the messages of an entry with rows, partition by partition. Returns the end and the count of units; the
    end is -1 when there is no room."""
    route = routes.routes[entry.name]
    low, high = int64(route.partition), int64(route.partition + 1)
    if route.mode != FIXED:
        low, high = int64(0), int64(route.partitions)
    for partition in range(low, high):
        first, part = int64(0), int64(0)
        while first < entry.rows:
            last, rows, size = _fitting(found.rows, entry.rows, first, partition, batch.limit)
            if rows == 0:
                break
            if count == units.size or at + _room(entry, found.rows, size) > len(out):
                return int64(-1), count
            done = _put_message(data, entry, batch, found, first, last, partition, out, at)
            note(units[count], at, done, number, partition, part, rows)
            at, count, part, first = done, count + 1, part + 1, last
    return at, count


@helper
def _fitting(rows: Any, stop: int, first: int, partition: int, limit: int) -> tuple[int, int, int]:
    """Returns the end of the rows from `first` on of which those of the partition fit a message, how many these are,
    and their bytes. One row always fits."""
    last, count, size = first, int64(0), int64(0)
    while last < stop:
        row = rows[last]
        if row.partition == partition:
            length = row.end - row.field  # of which a row without cells has some too
            if count and size + length > limit:
                break
            count += 1
            size += length
        last += 1
    return last, count, size


@helper
def _room(entry: Any, rows: Any, size: int) -> int:
    """Returns bytes that are enough for a message of rows of `size` bytes, of the last row's types and the first row's
    key."""
    kind, key = rows[entry.rows - 1], rows[0]
    return room_of(entry) + ESCAPED * int64(size + 2 * (kind.end - kind.start) + key.end - key.start)


@helper
def _put_message(
    data: Bytes,
    entry: Any,
    batch: FlatBatch,
    found: EntryRows,
    first: int,
    last: int,
    partition: int,
    out: Bytes,
    at: int,
) -> int:
    """Writes the rows of a partition among `first` to `last` as one message; returns the end. A Java type depends on
    the value: the last row's are the entry's."""
    image, cells = shown(entry.event), found.cells
    at = _put_images(data, found, first, last, partition, image, VALUES, out, put_text(DATA, out, at))
    at = put_head(data, entry, batch, out, at)
    at = put_cells(data, found.rows[entry.rows - 1], cells, image, MYSQL_TYPES, out, at)
    at = put_text(OLD, out, at)
    if entry.event == CanalEventType.UPDATE:
        at = _put_images(data, found, first, last, partition, BEFORE, CHANGED, out, at)
    else:
        at = put_null(out, at)
    at = put_cells(data, found.rows[0], cells, image, KEY_NAMES, out, put_text(KEYS, out, at))
    at = put_text(SQL_TYPE, out, put_quoted(data, 0, 0, out, put_text(SQL, out, at)))
    at = put_cells(data, found.rows[entry.rows - 1], cells, image, JAVA_TYPES, out, at)
    return put_tail(data, entry, batch, out, at)


@helper
def _put_images(
    data: Bytes, found: EntryRows, first: int, last: int, partition: int, image: int, what: int, out: Bytes, at: int
) -> int:
    """Writes a list of the partition's rows among `first` to `last`; returns the end."""
    before = int64(0x5B)
    for number in range(first, last):
        row = found.rows[number]
        if row.partition == partition:
            out[at] = before
            before = int64(0x2C)
            at = put_cells(data, row, found.cells, image, what, out, at + 1)
    out[at] = 0x5D
    return at + 1


@kernel(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        BYTES,
        records(ENTRY),
        types.int64,
        ROUTES,
        BATCH,
        ENTRY_ROWS,
        OUT_BYTES,
        records(UNIT, writable=True),
    )
)
def flatten(
    data: Bytes,
    entries: Any,
    first: int,
    routes: Routes,
    batch: FlatBatch,
    found: EntryRows,
    out: Bytes,
    units: Any,
) -> tuple[int, int]:
    """Writes the messages of the entries from `first` on, each a unit, as far as there is room. `found` has room for
    the rows of the largest entry. Returns the next entry and the count of units."""
    at, count = int64(0), int64(0)
    for number in range(first, entries.size):
        entry = entries[number]
        if entry.type != EntryType.ROWDATA:
            continue
        if entry.rows == 0:
            done, after = _put_statement(data, entry, batch, out, at), count + 1
            if done < 0 or count == units.size:
                return number, count
            note(units[count], at, done, number, routes.routes[entry.name].statements, 0, 0)
        else:
            if not read_routed(data, entry, routes, found):
                return number, count
            done, after = _put_rows(data, entry, number, routes, batch, found, out, at, units, count)
            if done < 0:
                return number, count
        at, count = done, after
    return int64(entries.size), count
