"""The compiled pass of the annotator: every event's kind, schema and row count, without a Python object an event.

`scan` stops where Python is needed and says why (a code below) and where; the caller acts and calls it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from cdc_core.binlog.events import (
    HEADER,
    IGNORABLE,
    MARIA_GTID,
    NEW_FILE,
    OPERATION,
    PARTIAL_UPDATE_ROWS,
    PASS,
    QUERY,
    REFUSED,
    ROWS,
    STANDALONE,
    STATEMENT_END,
    TABLE_MAP,
    TREATMENT,
    UNKNOWN,
    UPDATE_BEFORE,
    XA_PREPARE,
    XID,
)
from cdc_core.binlog.images import BYTES, LAYOUT, TWO, image_end, int64, little, rows_header, value_options
from cdc_core.source.block import INDEX, Kind

# Why `scan` came back.
DONE, UNSEEN_TABLE, STATEMENT, FULL, BAD_UNKNOWN, BAD_REFUSED, BAD_TABLE, BAD_ROWS, BAD_SHORT, BAD_NESTING = range(10)

# Places in the `state` vector: what is carried from block to block.
IN_TRANSACTION, KEPT, MAPS, MARIADB = range(4)  # the first three end with the transaction
END, BEFORE = 4, 5  # of the last rows event: where it ended, and the rows so far that end there
PLACES = 6

# A TABLE_MAP body as seen before: its bytes (in the arena), its definition, and how its rows lie.
_FIELDS = ("hash", "start", "length", "schema", "layout", "columns")
ENTRY = np.dtype([(name, "<u8" if name == "hash" else "<i8") for name in _FIELDS])
MAP = np.dtype([("id", "<i8"), ("entry", "<i8")])  # a table id of the present statement

_BEGIN = np.frombuffer(b"BEGIN", np.uint8)
_COMMIT = np.frombuffer(b"COMMIT", np.uint8)
_SAVEPOINT = np.frombuffer(b"SAVEPOINT ", np.uint8)
_OTHER, _BEGINS, _ROWS, _ENDS, _FILTERED = (int(kind) for kind in Kind)
_ALL_ONES = 0xFFFFFF
_SEED, _FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)


@njit(types.uint64(BYTES, types.int64, types.int64), nogil=True, cache=True)
def hash_bytes(data: Any, at: int, size: int) -> Any:
    """A quick hash of a TABLE_MAP body; equality is decided by the bytes themselves."""
    value = _SEED ^ np.uint64(size)
    for i in range(0, size, 8):
        value = (value ^ np.uint64(little(data, at + i, min(8, size - i)))) * _FACTOR
        value ^= value >> np.uint64(29)
    return value


@njit(types.boolean(BYTES, types.int64, types.int64, BYTES), nogil=True, cache=True)
def starts_with(data: Any, at: int, size: int, word: Any) -> bool:
    if size < word.size:
        return False
    for i in range(word.size):  # noqa: SIM110 (kernels have no generators)
        if data[at + i] != word[i]:
            return False
    return True


@njit(TWO(BYTES, types.int64, types.int64), nogil=True, cache=True)
def query_text(data: Any, offset: int, length: int) -> tuple[int, int]:
    """Offset and size of a QUERY event's statement; size -1 when the event is too short."""
    at, stop = offset + HEADER, offset + length
    if at + 13 > stop:
        return at, -1
    start = at + 13 + little(data, at + 11, 2) + int64(data[at + 8]) + 1
    return start, stop - start


@njit(types.int64(BYTES, types.int64, types.int64, from_dtype(ENTRY)[::1], BYTES), nogil=True, cache=True)
def _find(data: Any, at: int, size: int, entries: Any, arena: Any) -> int:
    """The entry of a TABLE_MAP body, or -1. `entries` is an open-addressing table; `columns` is -1 in empty places."""
    wanted = hash_bytes(data, at, size)
    mask = np.uint64(entries.size - 1)
    place = wanted & mask
    while entries[place].columns >= 0:
        entry = entries[place]
        if entry.hash == wanted and entry.length == size:
            same = True
            for i in range(size):
                if data[at + i] != arena[entry.start + i]:
                    same = False
                    break
            if same:
                return int64(place)
        place = (place + np.uint64(1)) & mask
    return -1


@njit(types.int64(BYTES, types.int64, types.int64, types.int64, LAYOUT, types.int64[:, ::1]), nogil=True, cache=True)
def count_rows(data: Any, offset: int, length: int, kind: int, layout: Any, nowhere: Any) -> int:
    """The changed rows of a rows event of a type, an update's two images as one; -1 when its bytes do not add up."""
    update = OPERATION[kind] == UPDATE_BEFORE
    before, after, bits, bits_after, at = rows_header(data, offset, length, layout.size, update)
    stop = offset + length
    if at < 0:
        return -1
    rows = 0
    while at < stop:
        start = at
        at = image_end(data, at, stop, layout, before, bits, nowhere, 0)
        if at >= 0 and kind == PARTIAL_UPDATE_ROWS:
            at = value_options(data, at, stop, layout)[1]
        if at >= 0 and update:
            at = image_end(data, at, stop, layout, after, bits_after, nowhere, 0)
        if at <= start:
            return -1
        rows += 1
    return rows


@njit(
    TWO(
        BYTES,
        from_dtype(INDEX)[::1],
        types.int64,
        types.int64[::1],
        from_dtype(MAP)[::1],
        from_dtype(ENTRY)[::1],
        BYTES,
        LAYOUT,
    ),
    nogil=True,
    cache=True,
)
def scan(
    data: Any, index: Any, first: int, state: Any, maps: Any, entries: Any, arena: Any, layouts: Any
) -> tuple[int, int]:
    """Fills `kind`, `schema` and `rows` from event `first` on. Returns (why it stopped, at which event)."""
    nowhere = np.empty((0, 0), np.int64)
    for i in range(first, index.size):
        event = index[i]
        offset, length = int64(event.offset), int64(event.length)
        kind, schema, rows = _OTHER, -1, 0
        if length < HEADER or offset + length > data.size:
            return BAD_SHORT, i
        treatment = TREATMENT[event.type]
        if treatment == TABLE_MAP:
            if length < HEADER + 8:
                return BAD_SHORT, i
            if state[MAPS] == maps.size:
                return FULL, i
            entry = _find(data, offset + HEADER + 8, length - HEADER - 8, entries, arena)
            if entry < 0:
                return UNSEEN_TABLE, i
            maps[state[MAPS]].id = little(data, offset + HEADER, 6)
            maps[state[MAPS]].entry = entry
            state[MAPS] += 1
        elif treatment == ROWS:
            if length < HEADER + 8:
                return BAD_SHORT, i
            table = little(data, offset + HEADER, 6)
            found = -1
            for m in range(state[MAPS] - 1, -1, -1):
                if maps[m].id == table:
                    found = maps[m].entry
                    break
            if found < 0 and table & _ALL_ONES != _ALL_ONES:  # all ones: an empty event that only ends a statement
                return BAD_TABLE, i
            if found >= 0:
                schema = entries[found].schema
                kind = _ROWS
                if schema < 0:
                    kind = _FILTERED
                else:
                    low = entries[found].layout
                    layout = layouts[low : low + entries[found].columns]
                    rows = count_rows(data, offset, length, event.type, layout, nowhere)
                    if rows < 0:
                        return BAD_ROWS, i
                    state[KEPT] += 1
                    if state[END] != event.end:
                        state[END], state[BEFORE] = event.end, 0
                    event.row_base = state[BEFORE]
                    state[BEFORE] += rows
            if data[offset + HEADER + 6] & STATEMENT_END:
                state[MAPS] = 0
        elif treatment == QUERY:
            at, size = query_text(data, offset, length)
            if size < 0:
                return BAD_SHORT, i
            if size == _BEGIN.size and starts_with(data, at, size, _BEGIN):
                kind = _BEGINS
            elif size == _COMMIT.size and starts_with(data, at, size, _COMMIT):
                kind = _ENDS
            elif not starts_with(data, at, size, _SAVEPOINT):
                return STATEMENT, i
        elif treatment == XID:
            kind = _ENDS
        elif treatment == MARIA_GTID:
            if length < HEADER + 13:
                return BAD_SHORT, i
            if not data[offset + HEADER + 12] & STANDALONE:
                kind = _BEGINS
            state[MARIADB] = 1
        elif treatment == XA_PREPARE:
            if length < HEADER + 1:
                return BAD_SHORT, i
            if state[KEPT] > 0 and data[offset + HEADER] != 1:  # 1: prepared and committed in one
                return BAD_REFUSED, i
            kind = _ENDS
        elif treatment == NEW_FILE:
            state[MAPS] = 0
        elif treatment == REFUSED:
            return BAD_REFUSED, i
        elif treatment == UNKNOWN:
            if not event.flags & IGNORABLE:
                return BAD_UNKNOWN, i
        elif treatment != PASS:
            if length < HEADER + 26:
                return BAD_SHORT, i
            return STATEMENT, i
        if kind == _BEGINS:
            if state[KEPT] > 0:
                return BAD_NESTING, i
            state[IN_TRANSACTION] = 1
        elif kind == _ENDS:
            state[:MARIADB] = 0
        event.kind = kind
        event.schema = schema
        event.rows = rows
    return DONE, index.size
