"""The compiled pass of the annotator: every event's kind, schema and row count, without a Python object an event.

`scan` stops where Python must act and returns why and at which event; the caller acts, and calls it again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX, Kind
from cdc_core.binlog.events import (
    HEADER,
    IGNORABLE,
    INSERT,
    OPERATION,
    STANDALONE,
    STATEMENT_END,
    TREATMENT,
    UPDATE_BEFORE,
    EventType,
    Treatment,
)
from cdc_core.binlog.row_image import LAYOUT, STARTS, image_end, rows_header, value_options
from cdc_core.compiled.kernel import BYTES, PAIR, int64, kernel, records
from cdc_core.compiled.memory import little
from cdc_core.stream.definitions import FILTERED, KNOWN, Known, find
from cdc_core.stream.query import BEGIN, COMMIT, SAVEPOINT, query_text, starts_with


class Stop(IntEnum):
    """Why `scan` came back. From BAD_UNKNOWN on: what is wrong with the event."""

    DONE = 0
    UNSEEN_TABLE = 1  # the definitions do not have this TABLE_MAP
    STATEMENT = 2  # a statement that Python must read
    FULL = 3  # there is no room for another table id
    UNREADABLE = 4  # rows that do not fit their definition; the event is annotated, but for that
    BAD_UNKNOWN = 5
    BAD_REFUSED = 6
    BAD_TABLE = 7
    BAD_SHORT = 8
    BAD_NESTING = 9


# Carried from block to block. The open transaction: whether there is one, its captured rows events; table ids of its
# open statement. Of the last rows event: where it ended, and the rows so far that end there. Whether it is MariaDB, and
# whether its present statement is only the start or the rollback of an ALTER.
STATE = np.dtype([(name, "<i8") for name in ("open", "captured", "tables", "end", "rows", "mariadb", "undone")])
TABLE = np.dtype([("id", "<i8"), ("definition", "<i8")])  # what a table id of the open statement stands for


_STATE, _TABLES = records(STATE, writable=True), records(TABLE, writable=True)
_POST_HEADER = 8  # bytes of a TABLE_MAP's or rows event's body before what differs: table id 6, flags 2
_GROUP_COMMIT, _XA = 2, 64 | 128  # MariaDB GTID flags FL_GROUP_COMMIT_ID, FL_PREPARED_XA and FL_COMPLETED_XA
_UNDONE = 2 | 8  # its extra flags FL_START_ALTER_E1 and FL_ROLLBACK_ALTER_E1
_DUMMY = 0xFFFFFF  # a table id of all ones: an empty rows event that only ends a statement
_OTHER, _BEGIN, _ROWS, _COMMIT, _FILTERED = (
    int(kind) for kind in (Kind.OTHER, Kind.BEGIN, Kind.ROWS, Kind.COMMIT, Kind.FILTERED)
)


@kernel(types.int64(BYTES, types.int64, types.int64, types.int64, LAYOUT, STARTS))
def count_rows(data: Any, offset: int, length: int, kind: int, layout: Any, nowhere: Any) -> int:
    """The changed rows of a rows event of a type, an update's two images as one; -1 when its bytes do not add up.

    An image without columns has no bytes. Servers write one such row in an event: of an INSERT that leaves all columns
    to their defaults, with MINIMAL images. MySQL refuses several (error 1534), MariaDB leaves out none but of a key.
    """
    update = OPERATION[kind] == UPDATE_BEFORE
    before, after, at = rows_header(data, offset, length, layout.size, update)
    stop = offset + length
    if at < 0:
        return -1
    if before.bits == 0 and at == stop:
        return 1 if OPERATION[kind] == INSERT else -1
    rows = 0
    while at < stop:
        start = at
        at = image_end(data, at, stop, layout, before, nowhere, 0)
        if at >= 0 and kind == EventType.PARTIAL_UPDATE_ROWS:
            at = value_options(data, at, stop, layout)[1]
        if at >= 0 and update:
            at = image_end(data, at, stop, layout, after, nowhere, 0)
        if at <= start:
            return -1
        rows += 1
    return rows


@kernel(types.boolean(BYTES, types.int64, types.int64))
def is_undone_alter(data: Any, body: int, size: int) -> bool:
    """Whether a MariaDB GTID event says START ALTER or ROLLBACK ALTER (`binlog_alter_two_phase`): the statement after
    it has the text that COMMIT ALTER has again. Source: MariaDB, `Gtid_log_event::write`."""
    flags, at = data[body + 12], 13
    if flags & _GROUP_COMMIT:
        at += 8
    if flags & _XA and at + 6 <= size:
        at += 6 + data[body + at + 4] + data[body + at + 5]
    return at < size and data[body + at] & _UNDONE > 0


@kernel(types.int64(_TABLES, types.int64, types.int64))
def _definition_of(tables: Any, count: int, table_id: int) -> int:
    """The definition of a table id among the first `count`, -1 when there is none."""
    for i in range(count - 1, -1, -1):
        if tables[i].id == table_id:
            return int64(tables[i].definition)
    return -1


@kernel(PAIR(BYTES, records(INDEX, writable=True), types.int64, _STATE, _TABLES, KNOWN))
def scan(data: Any, index: Any, first: int, states: Any, tables: Any, known: Known) -> tuple[int, int]:
    """Fills `kind`, `schema`, `rows` and `row_base` of the index from row `first` on.

    `states` is one record; `tables` has room for the table ids of a statement. Returns a Stop, and the row of the event
    that it is about.
    """
    state, definitions, layouts = states[0], known.definitions, known.layouts
    nowhere = np.empty((0, 0), np.int64)
    for i in range(first, index.size):
        event = index[i]
        offset, length = int64(event.offset), int64(event.length)
        kind, schema, rows, unreadable = _OTHER, int64(-1), int64(0), False
        if length < HEADER or offset + length > data.size:
            return Stop.BAD_SHORT, i
        body, size = offset + HEADER, length - HEADER
        treatment = TREATMENT[event.type]
        if treatment == Treatment.TABLE_MAP:
            if size < _POST_HEADER:
                return Stop.BAD_SHORT, i
            if state.tables == tables.size:
                return Stop.FULL, i
            found = find(data, body + _POST_HEADER, size - _POST_HEADER, known)
            if found < 0:
                return Stop.UNSEEN_TABLE, i
            tables[state.tables].id = little(data, body, 6)
            tables[state.tables].definition = found
            state.tables += 1
        elif treatment == Treatment.ROWS:
            if size < _POST_HEADER:
                return Stop.BAD_SHORT, i
            table_id = little(data, body, 6)
            found = _definition_of(tables, state.tables, table_id)
            if found >= 0:
                definition = definitions[found]
                schema = definition.schema
                if schema == FILTERED:
                    kind = _FILTERED
                else:
                    layout = layouts[definition.layout : definition.layout + definition.columns]
                    if layout.size > 0:
                        rows = count_rows(data, offset, length, event.type, layout, nowhere)
                        unreadable = rows < 0
                    if unreadable or layout.size == 0:
                        rows = 1  # nobody knows how many
                    kind = _ROWS
                    state.captured += 1
                    if state.end != event.end:
                        state.end, state.rows = event.end, 0
                    event.row_base = state.rows
                    state.rows += rows
            elif table_id & _DUMMY != _DUMMY:
                return Stop.BAD_TABLE, i
            if data[body + 6] & STATEMENT_END:
                state.tables = 0
        elif treatment == Treatment.QUERY:
            at, size = query_text(data, offset, length)
            if size < 0:
                return Stop.BAD_SHORT, i
            if size == BEGIN.size and starts_with(data, at, size, BEGIN):
                kind = _BEGIN
            elif size == COMMIT.size and starts_with(data, at, size, COMMIT):
                kind = _COMMIT
            elif not starts_with(data, at, size, SAVEPOINT):
                return Stop.STATEMENT, i
        elif treatment == Treatment.XID:
            kind = _COMMIT
        elif treatment == Treatment.MARIA_GTID:
            if size < 13:
                return Stop.BAD_SHORT, i
            if not data[body + 12] & STANDALONE:
                kind = _BEGIN
            state.mariadb, state.undone = 1, is_undone_alter(data, body, size)
        elif treatment == Treatment.XA_PREPARE:
            if size < 1:
                return Stop.BAD_SHORT, i
            if state.captured > 0 and data[body] != 1:  # 1: prepared and committed in one phase
                return Stop.BAD_REFUSED, i
            kind = _COMMIT
        elif treatment == Treatment.NEW_FILE:
            state.tables = 0
        elif treatment == Treatment.REFUSED:
            return Stop.BAD_REFUSED, i
        elif treatment == Treatment.UNKNOWN:
            if not event.flags & IGNORABLE:
                return Stop.BAD_UNKNOWN, i
        elif treatment != Treatment.PASS:
            if size < 26:
                return Stop.BAD_SHORT, i
            return Stop.STATEMENT, i
        if kind == _BEGIN:
            if state.captured > 0:
                return Stop.BAD_NESTING, i
            state.open = 1
        elif kind == _COMMIT:
            state.open = state.captured = state.tables = 0
        event.kind, event.schema, event.rows = kind, schema, rows
        if unreadable:
            return Stop.UNREADABLE, i
    return Stop.DONE, index.size
