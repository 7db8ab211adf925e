"""The store values of rows events: RowChange with its rows and columns, written by a kernel in one pass.

A message stands after its length. That of a row is only known once the row is written: the kernel leaves as many bytes
for it as the row before took, and moves a row for which that was wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.events import DELETE, HEADER, INSERT, OPERATION, UPDATE_AFTER, UPDATE_BEFORE, EventType
from cdc_core.binlog.row_image import ABSENT, NULL
from cdc_core.canal.entries import values
from cdc_core.canal.entries.cells import PARTS, TableCells
from cdc_core.canal.entries.digits import put_number
from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.canal.entries.plans import FIELDS, MOST_TEXT, TextSource
from cdc_core.canal.entries.room import Room
from cdc_core.canal.entries.wire import put_varint, varint_size
from cdc_core.compiled.kernel import (
    BYTES,
    LONGS,
    OUT_BYTES,
    OUT_LONGS,
    Bytes,
    Longs,
    bare_helper,
    int64,
    kernel,
    named,
    records,
)
from cdc_core.compiled.memory import little
from cdc_core.compiled.words import SLACK, copy, equal, get, put, put_bytes, shift
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.images import RowImages

EVENT_TYPE = np.zeros(256, np.int32)  # CanalEventType of a rows event's type
EVENT_TYPE[OPERATION == INSERT] = CanalEventType.INSERT
EVENT_TYPE[OPERATION == UPDATE_BEFORE] = CanalEventType.UPDATE
EVENT_TYPE[OPERATION == DELETE] = CanalEventType.DELETE
_NULLED, _VALUED, _BEYOND, _OMITTED = range(4)  # what a cell is: the first three as `TableCells.fixed` has them
_KEPT = 3
_KIND, _AT, _SIZE = range(
    _KEPT
)  # what is kept of the cells of the image before an update: where the text is in the output
_NUMBER = 6  # bytes of a length at most
_TAIL = 6  # of the parts of a column


class _Table(NamedTuple):
    """`TableCells`, and two places to write to: `before[column]` and one text."""

    columns: Any
    plans: Any
    ends: Any
    texts: Any
    fixed: Any
    parts: Any
    before: Any
    text: Any


class _Images(NamedTuple):
    data: Any
    starts: Any
    op: Any


_TABLE = named(_Table, LONGS, LONGS, LONGS, BYTES, BYTES, LONGS, OUT_LONGS, OUT_BYTES)


class TableEntries:
    """One table's rows events of a window: `stores` are the sizes of their store values, which are in the room's
    memory. `damaged`: there is a value that cannot be printed."""

    def __init__(self, chunk: Chunk, images: RowImages, cells: TableCells, room: Room) -> None:
        table = _Table(
            _frozen(cells.columns),
            _frozen(cells.plans),
            _frozen(cells.ends),
            _frozen(cells.data),
            cells.fixed,
            _frozen(cells.parts),
            np.empty(len(cells.columns) * _KEPT, np.int64),
            np.empty(MOST_TEXT + SLACK, np.uint8),
        )
        read = chunk.data, chunk.index, images.starts.ravel(), images.op
        self._out = room.take(_most(*read, table))
        self._begins = np.empty(len(chunk.index), np.int64)
        self.stores = np.empty(len(chunk.index), np.int64)
        self.damaged = _write(*read, table, self._out, self._begins, self.stores) >= 0

    def __repr__(self) -> str:
        return f"<TableEntries events={len(self.stores)}>"

    def write(self, places: Longs, out: Bytes) -> None:
        """Copies each event's store value to its place."""
        _place(self._out, self._begins, self.stores, places, out)


def _frozen(array: Any) -> Any:
    """An array of one dimension that nobody writes to."""
    array = array.ravel()
    array.flags.writeable = False
    return array


@kernel(types.int64(BYTES, records(INDEX), LONGS, BYTES, _TABLE), bare=True)
def _most(data: Any, index: Any, starts: Any, op: Any, table: _Table) -> int:
    """Bytes that all store values have room in."""
    size, count = int64(0), op.size
    for c in range(table.columns.size):
        first, at = c * FIELDS, c * PARTS
        how, number = get(table.plans, first), get(table.plans, first + 1)
        tail = get(table.parts, at + _TAIL + 1) - get(table.parts, at + _TAIL)
        head = int64(0)
        for k in range(_TAIL):
            head = max(head, get(table.parts, at + k + 1) - get(table.parts, at + k))
        most = head + tail + get(table.plans, first + 3) + 2 * (1 + _NUMBER)
        own = get(table.columns, c) * count
        for i in range(own, own + count):
            start = get(starts, i)
            if start != ABSENT:
                size += most
                if start >= 0 and how == TextSource.UTF8:
                    size += values.length_of(data, start, number)
        if how == TextSource.READY:
            ready = number * (count + 1)
            size += get(table.ends, ready + count) - get(table.ends, ready)
    return int64(size + 2 * (1 + _NUMBER) * count + 16 * index.size)


@bare_helper
def _kind(images: _Images, at: int, op: int, whole: bool) -> int:
    """What a cell is. A column that an after image left out stands where the before image has it."""
    start = get(images.starts, at)
    if start >= 0:
        left_out = op == UPDATE_AFTER and whole and start == get(images.starts, at - 1)
        return int64(_OMITTED) if left_out else int64(_VALUED)
    if start == NULL:
        return int64(_NULLED)
    return int64(_OMITTED) if start == ABSENT else int64(_VALUED)


@bare_helper
def _print(data: Bytes, table: _Table, c: int, start: int) -> int:
    """Prints a value to `table.text`; returns its length, negative for a damaged one."""
    plan, text = c * FIELDS, table.text
    how, first, second = get(table.plans, plan), get(table.plans, plan + 1), get(table.plans, plan + 2)
    if how == TextSource.SIGNED:
        return values.put_signed(data, start, first, text, int64(0))
    if how == TextSource.UNSIGNED:
        return put_number(values.unsigned(data, start, first), text, int64(0))
    if how == TextSource.DECIMAL:
        return values.put_decimal(data, start, first, second, text, int64(0))
    if how == TextSource.DATE:
        return values.put_date(data, start, text, int64(0))
    return values.put_datetime(data, start, first, second, text, int64(0))


@bare_helper
def _put_length(tag: int, size: int, out: Bytes, at: int) -> int:
    """As `put_head`, for lengths that are most often short."""
    put(out, at, np.uint8(tag))
    if size < 0x80:
        put(out, at + 1, np.uint8(size))
        return at + 2
    return put_varint(size, out, at + 1)


@bare_helper
def _put_image(tag: int, images: _Images, table: _Table, i: int, whole: bool, out: Bytes, at: int) -> int:
    """Writes an image's Column messages, each after the tag; returns the end, -1 for a damaged value."""
    data, count = images.data, int64(images.op.size)
    op = get(images.op, i)
    for c in range(table.columns.size):
        own, kept = get(table.columns, c) * count + i, c * _KEPT
        kind = _kind(images, own, op, whole)
        if kind == _OMITTED:
            if op == UPDATE_BEFORE:
                put(table.before, kept + _KIND, int64(_OMITTED))
            continue
        start = get(images.starts, own)
        how, first = get(table.plans, c * FIELDS), get(table.plans, c * FIELDS + 1)
        size, source = int64(0), int64(0)
        if kind == _NULLED:
            pass
        elif how == TextSource.UTF8:
            size, source = values.length_of(data, start, first), start + first
            if not values.is_utf8(data, source, size):
                return int64(-1)
        elif how == TextSource.READY:
            ready = first * (count + 1) + i
            source = get(table.ends, ready)
            size = get(table.ends, ready + 1) - source
        else:
            size = _print(data, table, c, start)
            if size < 0:
                return int64(-1)
            if how == TextSource.UNSIGNED and values.unsigned(data, start, first) >> np.uint64(8 * first - 1):
                kind = int64(_BEYOND)
        updated = op == INSERT
        if op == UPDATE_AFTER:
            updated = kind != get(table.before, kept + _KIND) or size != get(table.before, kept + _SIZE)
            if not updated and size:
                there = get(table.before, kept + _AT)
                if how == TextSource.UTF8:
                    updated = not equal(data, source, out, there, size)
                elif how == TextSource.READY:
                    updated = not equal(table.texts, source, out, there, size)
                else:
                    updated = not equal(table.text, source, out, there, size)
        part = c * PARTS
        begin = part + 2 * kind + (1 if updated else 0)
        head, tail = get(table.parts, begin), get(table.parts, part + _TAIL)
        head_size, tail_size = get(table.parts, begin + 1) - head, get(table.parts, part + _TAIL + 1) - tail
        if not size and kind != _NULLED:
            head_size -= 1  # the tag of the value
        message = head_size + tail_size
        if size:
            message += varint_size(size) + size
        at = _put_length(tag, message, out, at)
        put_bytes(out, at, table.fixed, head, head_size)
        at += head_size
        if size:
            at = _put_length(0x42, size, out, at - 1)
            if how == TextSource.UTF8:
                put_bytes(out, at, data, source, size)
            elif how == TextSource.READY:
                put_bytes(out, at, table.texts, source, size)
            else:
                put_bytes(out, at, table.text, source, size)
        if op == UPDATE_BEFORE:
            put(table.before, kept + _KIND, kind)
            put(table.before, kept + _AT, at)
            put(table.before, kept + _SIZE, size)
        at += size
        put_bytes(out, at, table.fixed, tail, tail_size)
        at += tail_size
    return at


@kernel(types.int64(BYTES, records(INDEX), LONGS, BYTES, _TABLE, OUT_BYTES, OUT_LONGS, OUT_LONGS), bare=True)
def _write(data: Any, index: Any, starts: Any, op: Any, table: _Table, out: Any, begins: Any, stores: Any) -> int:
    """Writes one store value after the other. Returns the first image with a damaged value, or -1."""
    images = _Images(data, starts, op)
    at, i, room = int64(0), int64(0), int64(2)  # bytes for the length of a row
    for e in range(index.size):
        event = index[e]
        operation = OPERATION[event.type]
        whole = event.type != EventType.PARTIAL_UPDATE_ROWS
        begins[e] = at
        out[at] = 0x08
        at = put_varint(little(data, int64(event.offset) + HEADER, 6), out, at + 1)
        out[at], out[at + 1], out[at + 2], out[at + 3] = 0x10, EVENT_TYPE[event.type], 0x50, 0
        at += 4
        for _ in range(event.rows):
            row = at + 1
            out[at] = 0x62
            at = _put_image(0x12 if operation == INSERT else 0x0A, images, table, i, whole, out, row + room)
            i += 1
            if operation == UPDATE_BEFORE and at >= 0:
                at = _put_image(0x12, images, table, i, whole, out, at)
                i += 1
            if at < 0:
                return i
            size = at - row - room
            needed = varint_size(size)
            if needed != room:
                shift(out, row + needed, row + room, size)
                at += needed - room
                room = int64(needed)
            put_varint(size, out, row)
        stores[e] = at - begins[e]
    return int64(-1)


@kernel(types.void(BYTES, LONGS, LONGS, LONGS, OUT_BYTES), bare=True)
def _place(data: Any, begins: Any, sizes: Any, places: Any, out: Any) -> None:
    for e in range(len(begins)):
        copy(out, places[e], data, begins[e], sizes[e])
