"""Which events of a window become entries, as Canal's sink has it: transactions without rows are left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX, Kind
from cdc_core.binlog.events import HEADER, INSERT, OPERATION, STATEMENT_END, UPDATE_BEFORE, EventType
from cdc_core.canal.entries.options import Options
from cdc_core.canal.entries.window import Window
from cdc_core.compiled.kernel import (
    BYTES,
    OUT_BYTES,
    OUT_INTS,
    OUT_LONGS,
    Bytes,
    Ints,
    Longs,
    int64,
    kernel,
    named,
    records,
)

SKIPPED, BEGIN, ROWS, END, STATEMENT = range(5)  # what an event becomes
CLOSED, PENDING, BEGUN = range(3)  # the open transaction: none, one whose BEGIN is not handed out, one whose BEGIN is
_OPEN, _BEGIN_AT, _QUERY_AT, _GTIDS, _GROUP = range(5)


class Sequence(NamedTuple):
    """For each event: what it becomes, and the number of its transaction's GTID among `gtids` (rows of the window's
    index), -1 without one. `state` is that of the transaction which is open at the end. Events that it needs later, -1
    without one: `begin`, `text` of a statement whose rows may still come, `gtid`."""

    codes: Bytes
    groups: Ints
    gtids: Longs
    state: int
    begin: int
    text: int
    gtid: int


class _Filter(NamedTuple):
    """What becomes an entry: by definition, kind of change; whether rows do at all, and the texts of their statements.
    `shown[i]`: whether event i, a DDL statement inside a transaction, does."""

    wanted: Any
    shown: Any
    inserts: bool
    updates: bool
    deletes: bool
    rows: bool
    texts: bool


class _Marks(NamedTuple):
    codes: Any
    groups: Any
    gtids: Any
    state: Any


_FILTER = named(_Filter, types.boolean[::1], types.boolean[::1], *[types.boolean] * 5)
_MARKS = named(_Marks, OUT_BYTES, OUT_INTS, OUT_LONGS, OUT_LONGS)


def sequence(window: Window, wanted: Any, shown: Any, options: Options, state: int) -> Sequence:
    """`wanted[number]` says whether the client gets the rows of a definition, `shown[event]` whether it gets a DDL
    statement inside a transaction. `state` is that of the transaction which is open before the window: CLOSED or
    BEGUN."""
    count = len(window.index)
    codes, groups = np.zeros(count, np.uint8), np.empty(count, np.int32)
    marks = _Marks(codes, groups, np.empty(count, np.int64), np.array([state, -1, -1, 0, -1], np.int64))
    changes = (not options.dml_insert, not options.dml_update, not options.dml_delete)
    keeps = _Filter(wanted, shown, *changes, rows=not options.rows, texts=not options.query_dml)
    _mark(window.data, window.index, keeps, marks)
    if options.transaction_entry:
        codes[(codes == BEGIN) | (codes == END)] = SKIPPED
    if not options.gtid:
        groups[:] = -1
    final, gtids = marks.state.tolist(), marks.gtids[: marks.state[_GTIDS]]
    gtid = int(gtids[final[_GROUP]]) if options.gtid and final[_GROUP] >= 0 else -1
    return Sequence(codes, groups, gtids, final[_OPEN], final[_BEGIN_AT], final[_QUERY_AT], gtid)


@kernel(types.void(BYTES, records(INDEX), _FILTER, _MARKS))
def _mark(data: Any, index: Any, keeps: _Filter, marks: _Marks) -> None:
    wanted, shown, inserts, updates, deletes, rows, texts = keeps
    codes, groups, gtids, state = marks
    group = int64(-1)
    for i in range(index.size):
        kind, event_type = index[i].kind, index[i].type
        if event_type in (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIA_GTID):
            group = state[_GTIDS]
            gtids[group] = i
            state[_GTIDS] += 1
        elif event_type == EventType.ANONYMOUS_GTID:
            group = int64(-1)
        groups[i] = group
        emitted = False
        if kind == Kind.BEGIN or event_type == EventType.MARIA_GTID:  # an XA COMMIT's, too, with the rows after it
            if state[_OPEN] != BEGUN:
                state[_OPEN] = PENDING
            state[_BEGIN_AT], state[_QUERY_AT] = i, -1
        elif event_type in (EventType.ROWS_QUERY, EventType.MARIA_ANNOTATE_ROWS):
            state[_QUERY_AT] = i
        elif kind == Kind.ROWS:
            operation = OPERATION[event_type]
            kept = deletes
            if operation == INSERT:
                kept = inserts
            elif operation == UPDATE_BEFORE:
                kept = updates
            if kept and wanted[index[i].schema]:
                if rows:
                    codes[i] = ROWS
                    emitted = True
                if texts and state[_QUERY_AT] >= 0:
                    codes[state[_QUERY_AT]] = STATEMENT
                    state[_QUERY_AT] = -1
                    emitted = True
        elif kind == Kind.DDL_WITHIN and shown[i]:
            codes[i] = STATEMENT
            emitted = True
        elif kind in (Kind.DDL, Kind.DDL_UNSHOWN):
            codes[i] = STATEMENT
            state[_OPEN], state[_QUERY_AT] = CLOSED, -1
        elif kind == Kind.COMMIT:
            if state[_OPEN] == BEGUN:
                codes[i] = END
            elif state[_OPEN] == CLOSED and event_type == EventType.QUERY:
                codes[i] = STATEMENT
            state[_OPEN], state[_QUERY_AT] = CLOSED, -1
        if kind in (Kind.ROWS, Kind.FILTERED) and data[int64(index[i].offset) + HEADER + 6] & STATEMENT_END:
            state[_QUERY_AT] = -1
        if emitted:
            if state[_OPEN] == PENDING:
                codes[state[_BEGIN_AT]] = BEGIN
            state[_OPEN] = BEGUN  # also of a transaction whose BEGIN was in an earlier claim
        if kind in (Kind.DDL, Kind.DDL_UNSHOWN, Kind.COMMIT):
            group = int64(-1)
    state[_GROUP] = group
