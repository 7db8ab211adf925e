"""Entries as Canal's flat messages: JSON that kernels write straight from the entries' bytes.

One entry is one message, or several: one for each partition that its rows belong to, and each so short that a broker
takes it. The keys are in alphabetical order. Source: Canal's `FlatMessage`, `MQMessageUtils.messageConverter`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.canal.protocol.declared import CanalEventType
from cdc_core.canal.queues.flat_row import (
    JAVA_TYPES,
    MYSQL_TYPES,
    NAMES_OF_KEY,
    ROOM,
    put_columns,
    put_image,
    put_null,
    put_old,
    put_signed,
)
from cdc_core.canal.queues.route import FIXED, ROUTES, Routes, rows_of, shown
from cdc_core.canal.queues.scan import ENTRY, read_field
from cdc_core.compiled.kernel import (
    BYTES,
    OUT_BYTES,
    OUT_INTS,
    OUT_LONGS,
    Bytes,
    Longs,
    helper,
    int64,
    kernel,
    named,
    records,
)
from cdc_core.rows.columns.json_scalar import put_quoted

MESSAGE = np.dtype(
    [
        ("start", "<i8"),  # in the output
        ("end", "<i8"),
        ("entry", "<i4"),
        ("partition", "<i4"),
        ("part", "<i4"),  # which of the messages of its entry and partition
        ("rows", "<i4"),
    ]
)
_ROWDATA, _UPDATE = 2, 2
_SQL = 11  # a field of the row change


def _words(*texts: str) -> tuple[Bytes, Longs]:
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return np.frombuffer("".join(texts).encode(), np.uint8), ends


_TYPES, _TYPE_ENDS = _words(
    *(CanalEventType(n).name if n in set(CanalEventType) else "QUERY" for n in range(max(CanalEventType) + 1))
)
_PIECES, _PIECE_ENDS = _words(
    '{"data":',
    ',"database":',
    ',"es":',
    ',"gtid":',
    ',"id":',
    ',"isDdl":true,"mysqlType":',
    ',"isDdl":false,"mysqlType":',
    ',"old":',
    ',"pkNames":',
    ',"sql":',
    ',"sqlType":',
    ',"table":',
    ',"ts":',
    ',"type":"',
    '"}',
)
(
    _DATA,
    _DATABASE,
    _ES,
    _GTID,
    _ID,
    _IS_DDL,
    _NO_DDL,
    _OLD,
    _KEYS,
    _SQL_TEXT,
    _SQL_TYPE,
    _TABLE,
    _TS,
    _TYPE,
    _END,
) = range(15)


class FlatBatch(NamedTuple):
    """What the messages say beside the entries, and how many bytes of rows one may have."""

    id: Any
    ts: Any
    limit: Any


BATCH = named(FlatBatch, types.int64, types.int64, types.int64)


@helper
def _piece(number: int, out: Bytes, at: int) -> int:
    for k in range(_PIECE_ENDS[number], _PIECE_ENDS[number + 1]):
        out[at] = _PIECES[k]
        at += 1
    return at


@helper
def _head(data: Bytes, entry: Any, batch: FlatBatch, out: Bytes, at: int) -> int:
    """From `database` to the beginning of `mysqlType`."""
    at = put_quoted(data, entry.schema, entry.schema_end, out, _piece(_DATABASE, out, at))
    at = put_signed(entry.time, out, _piece(_ES, out, at))
    at = put_quoted(data, entry.gtid, entry.gtid_end, out, _piece(_GTID, out, at))
    at = put_signed(batch.id, out, _piece(_ID, out, at))
    return _piece(_IS_DDL if entry.ddl else _NO_DDL, out, at)


@helper
def _tail(data: Bytes, entry: Any, batch: FlatBatch, out: Bytes, at: int) -> int:
    """From `table` to the end."""
    at = put_quoted(data, entry.table, entry.table_end, out, _piece(_TABLE, out, at))
    at = put_signed(batch.ts, out, _piece(_TS, out, at))
    at = _piece(_TYPE, out, at)
    kind = int64(entry.event)
    if kind < 0 or kind >= len(_TYPE_ENDS) - 1:
        kind = int64(0)
    for k in range(_TYPE_ENDS[kind], _TYPE_ENDS[kind + 1]):
        out[at] = _TYPES[k]
        at += 1
    return _piece(_END, out, at)


@helper
def _head_room(entry: Any) -> int:
    texts = entry.schema_end - entry.schema + entry.table_end - entry.table + entry.gtid_end - entry.gtid
    return int64(6 * texts + ROOM)


@helper
def _statement(data: Bytes, entry: Any, batch: FlatBatch, out: Bytes, at: int) -> int:
    """A message without rows; -1 when the output is full."""
    sql = sql_end = int64(0)
    place = entry.store
    while place < entry.store_end:
        number, start, end, long = read_field(data, place)
        if number == _SQL and long:
            sql, sql_end = start, end
        place = end
    if at + _head_room(entry) + 6 * (sql_end - sql) > len(out):
        return int64(-1)
    at = put_null(out, _piece(_DATA, out, at))
    at = put_null(out, _head(data, entry, batch, out, at))
    at = put_null(out, _piece(_OLD, out, at))
    at = put_null(out, _piece(_KEYS, out, at))
    at = put_quoted(data, sql, sql_end, out, _piece(_SQL_TEXT, out, at))
    at = put_null(out, _piece(_SQL_TYPE, out, at))
    return _tail(data, entry, batch, out, at)


@helper
def _row(data: Bytes, place: int) -> tuple[int, int]:
    """Where the content of a row starts and ends."""
    _number, start, end, _long = read_field(data, place)
    return start, end


@helper
def _rows(
    data: Bytes,
    entry: Any,
    batch: FlatBatch,
    places: Longs,
    chosen: Any,
    first: int,
    last: int,
    partition: int,
    out: Bytes,
    at: int,
) -> int:
    """The rows of a partition among `first` to `last` as one message; -1 when the output is full."""
    image = shown(entry.event)
    at = _piece(_DATA, out, at)
    before = int64(0x5B)
    for row in range(first, last):
        if chosen[row] == partition:
            if at + ROOM > len(out):
                return int64(-1)
            out[at] = before
            before = int64(0x2C)
            start, end = _row(data, places[row])
            at = put_image(data, start, end, image, out, at + 1)
            if at < 0:
                return int64(-1)
    if at + _head_room(entry) > len(out):
        return int64(-1)
    out[at] = 0x5D
    at = _head(data, entry, batch, out, at + 1)
    last_start, last_end = _row(data, places[entry.rows - 1])  # a Java type depends on the value: the last row's counts
    at = put_columns(data, last_start, last_end, image, MYSQL_TYPES, out, at)
    if at < 0:
        return int64(-1)
    at = _piece(_OLD, out, at)
    if entry.event == _UPDATE:
        before = int64(0x5B)
        for row in range(first, last):
            if chosen[row] == partition:
                if at + ROOM > len(out):
                    return int64(-1)
                out[at] = before
                before = int64(0x2C)
                begin, finish = _row(data, places[row])
                at = put_old(data, begin, finish, out, at + 1)
                if at < 0:
                    return int64(-1)
        out[at] = 0x5D
        at += 1
    else:
        at = put_null(out, at)
    start, end = _row(data, places[0])
    at = put_columns(data, start, end, image, NAMES_OF_KEY, out, _piece(_KEYS, out, at))
    if at < 0:
        return int64(-1)
    at = _piece(_SQL_TYPE, out, put_quoted(data, 0, 0, out, _piece(_SQL_TEXT, out, at)))
    at = put_columns(data, last_start, last_end, image, JAVA_TYPES, out, at)
    if at < 0 or at + _head_room(entry) > len(out):
        return int64(-1)
    return _tail(data, entry, batch, out, at)


@kernel(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        BYTES,
        records(ENTRY),
        types.int64,
        ROUTES,
        BATCH,
        OUT_LONGS,
        OUT_INTS,
        OUT_BYTES,
        records(MESSAGE, writable=True),
    )
)
def flatten(
    data: Bytes,
    entries: Any,
    first: int,
    routes: Routes,
    batch: FlatBatch,
    places: Longs,
    chosen: Any,
    out: Bytes,
    messages: Any,
) -> tuple[int, int]:
    """Writes the messages of the entries from `first` on, as far as the output has room. Returns the next entry and the
    count of messages. `places`, `chosen`: room for the rows of the largest entry."""
    at, count = int64(0), int64(0)
    for number in range(first, entries.size):
        entry = entries[number]
        if entry.type != _ROWDATA:
            continue
        before, done = count, at
        if entry.rows == 0:
            if count >= messages.size or done + ROOM > len(out):
                return number, before
            done = _statement(data, entry, batch, out, at)
            if done < 0:
                return number, before
            message = messages[count]
            message.start, message.end, message.entry, message.part, message.rows = at, done, number, 0, 0
            message.partition = routes.routes[entry.name].statements
            count, at = count + 1, done
            continue
        rows_of(data, entries, number, routes, places, chosen)
        route = routes.routes[entry.name]
        low, high = int64(route.partition), int64(route.partition + 1)
        if route.mode != FIXED:
            low, high = int64(0), int64(route.partitions)
        for partition in range(low, high):
            row, part = int64(0), int64(0)
            while row < entry.rows:
                size, rows, last = int64(0), int64(0), row
                while last < entry.rows:
                    if chosen[last] == partition:
                        start, end = _row(data, places[last])
                        if rows and size + end - start > batch.limit:
                            break
                        size += end - start
                        rows += 1
                    last += 1
                if rows == 0:
                    break
                if count >= messages.size or done + ROOM > len(out):
                    return number, before
                begun = done
                done = _rows(data, entry, batch, places, chosen, row, last, partition, out, done)
                if done < 0:
                    return number, before
                message = messages[count]
                message.start, message.end, message.entry, message.part, message.rows = begun, done, number, part, rows
                message.partition = partition
                count += 1
                part += 1
                row = last
        at = done
    return int64(entries.size), count
