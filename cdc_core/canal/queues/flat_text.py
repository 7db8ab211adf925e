"""The texts of a flat message, for kernels: its head, its tail, and all that it has of a row by one function.

They do not ask for room. A text of a row takes at most `ESCAPED` times the row's bytes, all that is not of a row at
most `room_of` its entry.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.canal.entries.wire import put_digits
from cdc_core.compiled.kernel import Bytes, Longs, helper, int64, named
from cdc_core.rows.columns.json_scalar import put_quoted

ESCAPED = 6  # bytes at most of an escaped byte; a cell has more bytes besides its texts than their punctuation takes
VALUES, CHANGED, MYSQL_TYPES, JAVA_TYPES, KEY_NAMES = range(5)  # what of a row's cells is written
_FIXED = 512  # bytes of a message that are of no row and no name


def _text(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


def _texts(*texts: str) -> tuple[Bytes, Longs]:
    return _text("".join(texts)), np.cumsum([0, *map(len, texts)]).astype(np.int64)


DATA, OLD, KEYS, SQL_TYPE = _text('{"data":'), _text(',"old":'), _text(',"pkNames":'), _text(',"sqlType":')
SQL = _text(',"sql":')
_DATABASE, _ES, _GTID, _ID = _text(',"database":'), _text(',"es":'), _text(',"gtid":'), _text(',"id":')
_IS_DDL, _IS_NO_DDL = _text(',"isDdl":true,"mysqlType":'), _text(',"isDdl":false,"mysqlType":')
_TABLE, _TS, _TYPE, _END = _text(',"table":'), _text(',"ts":'), _text(',"type":"'), _text('"}')
_NULL = _text("null")
_TYPES, _TYPE_ENDS = _texts(
    *(CanalEventType(n).name if n in set(CanalEventType) else "QUERY" for n in range(max(CanalEventType) + 1))
)


class FlatBatch(NamedTuple):
    """What messages say that their entries do not, and how many bytes of rows one may have."""

    id: Any
    ts: Any
    limit: Any


BATCH = named(FlatBatch, types.int64, types.int64, types.int64)


@helper
def room_of(entry: Any) -> int:
    """Returns bytes that are enough for all of a message but its rows and its statement."""
    names = entry.schema_end - entry.schema + entry.table_end - entry.table + entry.gtid_end - entry.gtid
    return int64(ESCAPED * names + _FIXED)


@helper
def put_text(text: Bytes, out: Bytes, at: int) -> int:
    for k in range(len(text)):
        out[at + k] = text[k]
    return at + len(text)


@helper
def put_null(out: Bytes, at: int) -> int:
    return put_text(_NULL, out, at)


@helper
def put_head(data: Bytes, entry: Any, batch: FlatBatch, out: Bytes, at: int) -> int:
    """Writes what lies between `data` and `mysqlType`; returns the end."""
    at = put_quoted(data, entry.schema, entry.schema_end, out, put_text(_DATABASE, out, at))
    at = _put_signed(entry.time, out, put_text(_ES, out, at))
    at = put_quoted(data, entry.gtid, entry.gtid_end, out, put_text(_GTID, out, at))
    at = _put_signed(batch.id, out, put_text(_ID, out, at))
    return put_text(_IS_DDL, out, at) if entry.ddl else put_text(_IS_NO_DDL, out, at)


@helper
def put_tail(data: Bytes, entry: Any, batch: FlatBatch, out: Bytes, at: int) -> int:
    """Writes all from `table` on; returns the end."""
    at = put_quoted(data, entry.table, entry.table_end, out, put_text(_TABLE, out, at))
    at = put_text(_TYPE, out, _put_signed(batch.ts, out, put_text(_TS, out, at)))
    kind = int64(entry.event)
    if kind < 0 or kind >= len(_TYPE_ENDS) - 1:
        kind = int64(0)
    for k in range(_TYPE_ENDS[kind], _TYPE_ENDS[kind + 1]):
        out[at] = _TYPES[k]
        at += 1
    return put_text(_END, out, at)


@helper
def put_cells(data: Bytes, row: Any, cells: Any, image: int, what: int, out: Bytes, at: int) -> int:
    """Writes the cells of a row's image as an object, of the values (of all cells, or of the changed ones) or of types,
    or as a list of the key's names; null without types or names. Returns the end."""
    out[at] = 0x5B if what == KEY_NAMES else 0x7B
    at += 1
    begin = at
    for k in range(row.first, row.last):
        cell = cells[k]
        if cell.image != image or (what == CHANGED and not cell.updated) or (what == KEY_NAMES and not cell.key):
            continue
        if at > begin:
            out[at] = 0x2C
            at += 1
        at = put_quoted(data, cell.name, cell.name_end, out, at)
        if what != KEY_NAMES:
            out[at] = 0x3A
            at = _put_content(data, cell, what, out, at + 1)
    if at == begin and what not in (VALUES, CHANGED):
        return put_null(out, begin - 1)
    out[at] = 0x5D if what == KEY_NAMES else 0x7D
    return at + 1


@helper
def _put_content(data: Bytes, cell: Any, what: int, out: Bytes, at: int) -> int:
    if what == MYSQL_TYPES:
        return put_quoted(data, cell.type, cell.type_end, out, at)
    if what == JAVA_TYPES:
        return _put_signed(int64(cell.java_type), out, at)
    if cell.null:
        return put_null(out, at)
    return put_quoted(data, cell.value, cell.value_end, out, at)


@helper
def _put_signed(value: int, out: Bytes, at: int) -> int:
    if value < 0:
        out[at] = 0x2D
        return put_digits(-value, out, at + 1)
    return put_digits(value, out, at)
