"""The compiled search for event groups: where each begins and ends, and the few events that decide what becomes of it.

An event group is what a server writes for one transaction: from its GTID to XID, COMMIT, ROLLBACK or XA_PREPARE, or to
a statement that stands alone. A group is in doubt while its rows may still come to nothing: in XA transactions, in
MySQL's groups with the flag FLAG_MAY_HAVE_SBR (only these were seen to end in ROLLBACK, after temporary tables), and in
all of MariaDB's. Python looks at the decisive events alone; all others pass without an object an event.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.binlog.block import INDEX, Block
from cdc_core.binlog.events import GTIDS, HEADER, STANDALONE, EventType
from cdc_core.compiled.kernel import BYTES, int64, kernel, records
from cdc_core.stream.query import BEGIN, COMMIT, ROLLBACK, SAVEPOINT, XA_START, query_text, starts_with


class Decision(IntEnum):
    """What kind of event decides."""

    STATEMENT = 0  # a QUERY other than BEGIN, COMMIT and SAVEPOINT
    PREPARE = 1  # an XA_PREPARE
    END = 2  # an ordinary end, of a group that began before the block


# A decisive event: its row; the row of its group's first event, -1 in an earlier block; where the group starts in the
# journal; whether the group is in doubt; the Decision.
DECISIVE = np.dtype([(name, "<i8") for name in ("row", "head", "start", "doubt", "decision")])

# Carried from block to block, of the last group: whether it is open; whether statements do not end it; its Doubt; the
# row of its first event, -1 in an earlier block; where it starts in the journal; its bytes so far.
STATE = np.dtype([(name, "<i8") for name in ("open", "within", "doubt", "head", "start", "size")])

_STATE, _DECISIVE = records(STATE, writable=True), records(DECISIVE, writable=True)
_, _IN_DOUBT, _NOT_BEGUN = range(3)  # doubt; _NOT_BEGUN: the GTID raises none, and nothing has followed it yet
_MAY_HOLD_STATEMENTS = 1  # MySQL GTID flag FLAG_MAY_HAVE_SBR


def new_state() -> npt.NDArray[np.void]:
    """The state before the first block: no group is open."""
    return np.zeros(1, STATE)


@kernel(types.int64(BYTES, types.int64, types.int64, types.int64))
def _doubt(data: Any, kind: int, at: int, stop: int) -> int:
    """The doubt that a GTID event of type `kind`, with the body `data[at:stop]`, raises about its group."""
    if kind == EventType.MARIA_GTID:
        return _IN_DOUBT
    shift = 0
    if kind == EventType.GTID_TAGGED:  # packed numbers: version, size, last required field, then field 0, the flags
        shift = 1
        for _ in range(4):
            more = 0  # bytes that follow the first: as many as it has ones at its low end
            while at < stop and more < 8 and data[at] >> more & 1:
                more += 1
            at += more + 1
    return _IN_DOUBT if at >= stop or data[at] >> shift & _MAY_HOLD_STATEMENTS else _NOT_BEGUN


@kernel(types.int64(BYTES, records(INDEX), types.int64, _STATE, _DECISIVE))
def _scan(data: Any, index: Any, start: int, states: Any, found: Any) -> int:
    """Fills `found`, which has a row for each event of `index`, and returns the number of decisive events."""
    state = states[0]
    state.head = -1
    count, before = int64(0), start
    for i in range(index.size):
        event = index[i]
        offset, length, kind = int64(event.offset), int64(event.length), event.type
        body, stop = offset + HEADER, offset + length
        decision, ends, at, size = int64(-1), False, body, int64(-1)
        if kind == EventType.QUERY and stop <= data.size:
            at, size = query_text(data, offset, length)
        if GTIDS[kind] or (size >= 0 and state.open == 0):
            state.open, state.within, state.head, state.start, state.size = 1, 0, i, before, 0
            state.doubt = _doubt(data, kind, body, min(stop, data.size)) if GTIDS[kind] else _NOT_BEGUN
        state.size += length
        if kind == EventType.MARIA_GTID and body + 12 < min(stop, data.size):
            state.within = 0 if data[body + 12] & STANDALONE else 1
        elif kind == EventType.XID:
            ends = True
        elif kind == EventType.XA_PREPARE:
            decision, ends = int64(Decision.PREPARE) if state.open > 0 else int64(-1), True
        elif size == BEGIN.size and starts_with(data, at, size, BEGIN):
            state.within = 1
            state.doubt &= 1
        elif size == COMMIT.size and starts_with(data, at, size, COMMIT):
            ends = True
        elif size >= 0 and starts_with(data, at, size, XA_START):
            state.within = state.doubt = 1
        elif size >= 0 and not starts_with(data, at, size, SAVEPOINT):
            decision = int64(Decision.STATEMENT)
            ends = state.within == 0 or (size == ROLLBACK.size and starts_with(data, at, size, ROLLBACK))
        if ends and decision < 0 and state.open > 0 and state.head < 0:
            decision = int64(Decision.END)
        if decision >= 0:
            one = found[count]
            one.row, one.head, one.start, one.doubt, one.decision = i, state.head, state.start, state.doubt, decision
            count += 1
        if ends:
            state.open = 0
        before = event.end
    return count


def decisive_events(block: Block, state: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """A block's decisive events, of dtype DECISIVE. Events that are too short are left to the annotator.

    Moves `state` on; its `head` is then the row where the open group begins, -1 when that is before the block.
    """
    found = np.empty(len(block.index), DECISIVE)
    return found[: _scan(block.data, block.index, block.start, state, found)]
