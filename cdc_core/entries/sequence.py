"""Which events of a window become entries, as Canal's sink has it: transactions without rows are left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX, Kind
from cdc_core.binlog.events import INSERT, OPERATION, UPDATE_BEFORE, EventType
from cdc_core.compiled.kernel import OUT_BYTES, OUT_INTS, OUT_LONGS, Bytes, Ints, Longs, int64, kernel, named, records
from cdc_core.entries.options import Options
from cdc_core.entries.window import Window

SKIPPED, BEGIN, ROWS, END, STATEMENT = range(5)  # what an event becomes
CLOSED, PENDING, BEGUN = range(3)  # the open transaction: none, one whose BEGIN is not handed out, one whose BEGIN is
_OPEN, _BEGIN_AT, _QUERY_AT, _GTIDS = range(4)


class Sequence(NamedTuple):
    """For each event: what it becomes, and the number of its transaction's GTID among `gtids` (rows of the window's
    index), -1 without one. `state` is that of the transaction which is open at the end; `begin` is its BEGIN."""

    codes: Bytes
    groups: Ints
    gtids: Longs
    state: int
    begin: int


class _Filter(NamedTuple):
    wanted: Any
    inserts: bool
    updates: bool
    deletes: bool


class _Marks(NamedTuple):
    codes: Any
    groups: Any
    gtids: Any
    state: Any


_FILTER = named(_Filter, types.boolean[::1], types.boolean, types.boolean, types.boolean)
_MARKS = named(_Marks, OUT_BYTES, OUT_INTS, OUT_LONGS, OUT_LONGS)


def sequence(window: Window, wanted: Any, options: Options, state: int) -> Sequence:
    """`wanted[number]` says whether the client gets the rows of a definition. `state` is that of the transaction which
    is open before the window: CLOSED or BEGUN."""
    count = len(window.index)
    codes, groups = np.zeros(count, np.uint8), np.empty(count, np.int32)
    marks = _Marks(codes, groups, np.empty(count, np.int64), np.array([state, -1, -1, 0], np.int64))
    keeps = _Filter(wanted, not options.dml_insert, not options.dml_update, not options.dml_delete)
    _mark(window.index, keeps, marks)
    if options.transaction_entry:
        codes[(codes == BEGIN) | (codes == END)] = SKIPPED
    if not options.gtid:
        groups[:] = -1
    if options.rows:
        codes[codes == ROWS] = SKIPPED
    final = marks.state
    return Sequence(codes, groups, marks.gtids[: final[_GTIDS]], int(final[_OPEN]), int(final[_BEGIN_AT]))


@kernel(types.void(records(INDEX), _FILTER, _MARKS))
def _mark(index: Any, keeps: _Filter, marks: _Marks) -> None:
    wanted, inserts, updates, deletes = keeps
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
        if kind == Kind.BEGIN:
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
                codes[i] = ROWS
                emitted = True
                if state[_QUERY_AT] >= 0:
                    codes[state[_QUERY_AT]] = STATEMENT
                    state[_QUERY_AT] = -1
        elif kind == Kind.DDL_WITHIN:
            codes[i] = STATEMENT
            emitted = True
        elif kind in (Kind.DDL, Kind.DDL_UNSHOWN):
            codes[i] = STATEMENT
            state[_OPEN] = CLOSED
        elif kind == Kind.COMMIT:
            if state[_OPEN] == BEGUN:
                codes[i] = END
            elif state[_OPEN] == CLOSED and event_type == EventType.QUERY:
                codes[i] = STATEMENT
            state[_OPEN] = CLOSED
        if emitted:
            if state[_OPEN] == PENDING:
                codes[state[_BEGIN_AT]] = BEGIN
            state[_OPEN] = BEGUN  # also of a transaction whose BEGIN was in an earlier claim
