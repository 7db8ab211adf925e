"""The compiled look for groups: where the events of each transaction begin and end, and what decides its fate.

A group is what a server writes in one go: from its GTID to XID, COMMIT, ROLLBACK, XA_PREPARE, or to a statement that
stands alone. It is in doubt while its rows may still come to nothing: in XA transactions, in MySQL's groups that say
that they may hold statements (only these were seen to end in ROLLBACK, after temporary tables), in all of MariaDB's.
Notes name the few events that Python must look at; all else goes by without an object an event.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import from_dtype, njit, types

from cdc_core.binlog.events import GTIDS, HEADER, STANDALONE, EventType
from cdc_core.binlog.images import BYTES, int64
from cdc_core.binlog.scan import query_text, starts_with
from cdc_core.source.block import INDEX, Block

# Notes: a QUERY that is no BEGIN, COMMIT or SAVEPOINT; an XA_PREPARE; an ordinary end of a group from before the block.
TEXT, PREPARE, END = range(3)

# `head` is the row of the group's first event, -1 when that lies in an earlier block; `start` is where the group starts
# in the journal.
NOTE = np.dtype([(name, "<i8") for name in ("row", "head", "start", "doubt", "code")])

# Places in the `state` vector, which goes from block to block. WITHIN: a statement does not end the group.
OPEN, WITHIN, DOUBT, HEAD, START, SIZE = range(6)
PLACES = 6
_UNTOLD = 2  # in DOUBT: a GTID that raises none, and nothing after it yet

_INDEX = types.Array(from_dtype(INDEX), 1, "C", readonly=True)
_MAY_HOLD_STATEMENTS = 1  # MySQL GTID flag FLAG_MAY_HAVE_SBR
_QUERY, _XID, _PREPARE, _MARIA_GTID, _TAGGED = (
    int(kind)
    for kind in (EventType.QUERY, EventType.XID, EventType.XA_PREPARE, EventType.MARIA_GTID, EventType.GTID_TAGGED)
)
_BEGIN, _COMMIT, _ROLLBACK, _SAVEPOINT, _XA = (
    np.frombuffer(word, np.uint8) for word in (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT ", b"XA START ")
)


@njit(types.int64(BYTES, types.int64, types.int64, types.int64), nogil=True, cache=True)
def _doubt(data: Any, kind: int, at: int, stop: int) -> int:
    """What a GTID event with its body in `data[at:stop]` says of its group."""
    if kind == _TAGGED:  # version, size, last field to be understood, then field 0, the flags: packed numbers
        for _ in range(4):
            more = 0  # bytes: as many as the first has ones at its low end
            while at < stop and more < 8 and data[at] >> more & 1:
                more += 1
            at += more + 1
        return 1 if at >= stop or data[at] >> 1 & _MAY_HOLD_STATEMENTS else _UNTOLD
    if kind == _MARIA_GTID:
        return 1
    return 1 if at >= stop or data[at] & _MAY_HOLD_STATEMENTS else _UNTOLD


@njit(types.int64(BYTES, _INDEX, types.int64, types.int64[::1], from_dtype(NOTE)[::1]), nogil=True, cache=True)
def _take(data: Any, index: Any, start: int, state: Any, notes: Any) -> int:
    """Writes `notes` (of as many rows as `index`) and returns how many."""
    state[HEAD] = -1
    count, before = int64(0), start
    for i in range(index.size):
        event = index[i]
        offset, length, kind = int64(event.offset), int64(event.length), event.type
        body, stop = offset + HEADER, offset + length
        code, ends, at, size = -1, False, body, int64(-1)
        if kind == _QUERY and stop <= data.size:
            at, size = query_text(data, offset, length)
        if GTIDS[kind] or (size >= 0 and state[OPEN] == 0):
            state[OPEN], state[WITHIN], state[HEAD], state[START], state[SIZE] = 1, 0, i, before, 0
            state[DOUBT] = _doubt(data, kind, body, min(stop, data.size)) if GTIDS[kind] else _UNTOLD
        state[SIZE] += length
        if kind == _MARIA_GTID and body + 12 < min(stop, data.size):
            state[WITHIN] = 0 if data[body + 12] & STANDALONE else 1
        elif kind == _XID:
            ends = True
        elif kind == _PREPARE:
            code, ends = PREPARE if state[OPEN] > 0 else -1, True
        elif size == _BEGIN.size and starts_with(data, at, size, _BEGIN):
            state[WITHIN] = 1
            state[DOUBT] &= 1
        elif size == _COMMIT.size and starts_with(data, at, size, _COMMIT):
            ends = True
        elif size >= 0 and starts_with(data, at, size, _XA):
            state[WITHIN] = state[DOUBT] = 1
        elif size >= 0 and not starts_with(data, at, size, _SAVEPOINT):
            code = TEXT
            ends = state[WITHIN] == 0 or (size == _ROLLBACK.size and starts_with(data, at, size, _ROLLBACK))
        if ends and code < 0 and state[OPEN] > 0 and state[HEAD] < 0:
            code = END
        if code >= 0:
            note = notes[count]
            note.row, note.head, note.start = i, state[HEAD], state[START]
            note.doubt, note.code = state[DOUBT], code
            count += 1
        if ends:
            state[OPEN] = 0
        before = event.end
    return count


def take(block: Block, state: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """A block's notes, of dtype NOTE. Events that are too short are left to the annotator.

    After it `state[HEAD]` is the row where the open group starts, -1 where that is before the block."""
    notes = np.empty(len(block.index), NOTE)
    return notes[: _take(block.data, block.index, block.start, state, notes)]
