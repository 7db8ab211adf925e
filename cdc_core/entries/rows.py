"""The store values of rows events: RowChange with its rows and columns, written by a kernel in one pass.

A message stands behind its length. That of a row is only known once the row is written: the kernel leaves as many bytes
for it as the row before took, and moves a row for which that was wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.events import DELETE, HEADER, INSERT, OPERATION, UPDATE_AFTER, UPDATE_BEFORE, EventType
from cdc_core.binlog.row_image import ABSENT, NULL, STARTS
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
from cdc_core.compiled.words import SLACK, copy, equal, put_bytes, shift
from cdc_core.entries import values
from cdc_core.entries.cells import TableCells
from cdc_core.entries.digits import put_number
from cdc_core.entries.plans import MOST_TEXT, How
from cdc_core.entries.room import Room
from cdc_core.entries.wire import block_size, put_head, put_varint, varint_size
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.images import RowImages

EVENT_TYPE = np.zeros(256, np.int32)  # Canal's EventType of a rows event's type
EVENT_TYPE[OPERATION == INSERT], EVENT_TYPE[OPERATION == UPDATE_BEFORE], EVENT_TYPE[OPERATION == DELETE] = 1, 2, 3
_NULLED, _VALUED, _BEYOND, _OMITTED = range(4)  # what a cell is: the first three as `TableCells.fixed` has them
_KIND, _AT, _SIZE = range(3)  # what is kept of the cells of the image before an update: where the text is in the output
_NUMBER = 6  # bytes of a length at most


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


_FIXED_GRID = types.Array(types.int64, 2, "C", readonly=True)
_GRID = types.int64[:, ::1]
_TABLE = named(_Table, LONGS, _FIXED_GRID, _GRID, BYTES, BYTES, _FIXED_GRID, _GRID, OUT_BYTES)


class TableEntries:
    """One table's rows events of a window: `stores` are the sizes of their store values, which are in the room's
    memory. `damaged`: there is a value that cannot be printed."""

    def __init__(self, chunk: Chunk, images: RowImages, cells: TableCells, room: Room) -> None:
        table = _Table(
            _frozen(cells.columns),
            _frozen(cells.plans),
            cells.ends,
            _frozen(cells.data),
            cells.fixed,
            _frozen(cells.parts),
            np.empty((len(cells.columns), 3), np.int64),
            np.empty(MOST_TEXT + SLACK, np.uint8),
        )
        read = chunk.data, chunk.index, images.starts, images.op
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
    array.flags.writeable = False
    return array


@kernel(types.int64(BYTES, records(INDEX), STARTS, BYTES, _TABLE), bare=True)
def _most(data: Any, index: Any, starts: Any, op: Any, table: _Table) -> int:
    """Bytes that all store values have room in."""
    columns, size = len(table.columns), int64(0)
    for c in range(columns):
        plan, parts = table.plans[c], table.parts[c]
        head = max(parts[1] - parts[0], parts[2] - parts[1], parts[3] - parts[2])
        most = head + parts[4] - parts[3] + plan[3] + 2 * (1 + _NUMBER) + 4
        own = table.columns[c]
        for i in range(op.size):
            start = starts[own, i]
            if start != ABSENT:
                size += most
                if start >= 0 and plan[0] == How.UTF8:
                    size += values.length_of(data, start, plan[1])
        if plan[0] == How.READY:
            size += table.ends[plan[1], op.size] - table.ends[plan[1], 0]
    return int64(size + 2 * (1 + _NUMBER) * op.size + 16 * index.size)


@bare_helper
def _kind(images: _Images, own: int, i: int, whole: bool) -> int:
    """What a cell is. A column that an after image left out stands where the before image has it."""
    start = images.starts[own, i]
    if start == NULL:
        return int64(_NULLED)
    if start == ABSENT:
        return int64(_OMITTED)
    if start >= 0 and whole and images.op[i] == UPDATE_AFTER and start == images.starts[own, i - 1]:
        return int64(_OMITTED)
    return int64(_VALUED)


@bare_helper
def _print(images: _Images, table: _Table, c: int, start: int) -> int:
    """Prints a value to `table.text`; returns its length, negative for a damaged one."""
    how, first, second = table.plans[c, 0], table.plans[c, 1], table.plans[c, 2]
    data, text = images.data, table.text
    if how == How.SIGNED:
        return values.put_signed(data, start, first, text, int64(0))
    if how == How.UNSIGNED:
        return put_number(values.unsigned(data, start, first), text, int64(0))
    if how == How.DECIMAL:
        return values.put_decimal(data, start, first, second, text, int64(0))
    if how == How.DATE:
        return values.put_date(data, start, text, int64(0))
    return values.put_datetime(data, start, first, second, text, int64(0))


@bare_helper
def _put_image(tag: int, images: _Images, table: _Table, i: int, whole: bool, out: Bytes, at: int) -> int:
    """Writes an image's Column messages, each behind the tag; returns the end, -1 for a damaged value."""
    op = images.op[i]
    for c in range(len(table.columns)):
        own = table.columns[c]
        kind = _kind(images, own, i, whole)
        if kind == _OMITTED:
            if op == UPDATE_BEFORE:
                table.before[c, _KIND] = _OMITTED
            continue
        start, how, first = images.starts[own, i], table.plans[c, 0], table.plans[c, 1]
        size, source = int64(0), int64(0)
        if kind == _NULLED:
            pass
        elif how == How.UTF8:
            size, source = values.length_of(images.data, start, first), start + first
            if not values.is_utf8(images.data, source, size):
                return int64(-1)
        elif how == How.READY:
            source = table.ends[first, i]
            size = table.ends[first, i + 1] - source
        else:
            size = _print(images, table, c, start)
            if size < 0:
                return int64(-1)
            if how == How.UNSIGNED and values.unsigned(images.data, start, first) >> np.uint64(8 * first - 1):
                kind = int64(_BEYOND)
        updated = op == INSERT
        if op == UPDATE_AFTER:
            updated = kind != table.before[c, _KIND] or size != table.before[c, _SIZE]
            if not updated and size:
                there = table.before[c, _AT]
                if how == How.UTF8:
                    updated = not equal(images.data, source, out, there, size)
                elif how == How.READY:
                    updated = not equal(table.texts, source, out, there, size)
                else:
                    updated = not equal(table.text, source, out, there, size)
        head, tail = table.parts[c, kind], table.parts[c, 3]
        head_size, tail_size = table.parts[c, kind + 1] - head, table.parts[c, 4] - tail
        message = head_size + 2 + tail_size + (2 if updated else 0)
        if size:
            message += block_size(size)
        at = put_head(tag, message, out, at)
        put_bytes(out, at, table.fixed, head, head_size)
        at += head_size
        if updated:
            out[at], out[at + 1] = 0x28, 1
            at += 2
        out[at], out[at + 1] = 0x30, kind == _NULLED
        at += 2
        if size:
            at = put_head(0x42, size, out, at)
            if how == How.UTF8:
                put_bytes(out, at, images.data, source, size)
            elif how == How.READY:
                put_bytes(out, at, table.texts, source, size)
            else:
                put_bytes(out, at, table.text, source, size)
        if op == UPDATE_BEFORE:
            table.before[c, _KIND], table.before[c, _AT], table.before[c, _SIZE] = kind, at, size
        at += size
        put_bytes(out, at, table.fixed, tail, tail_size)
        at += tail_size
    return at


@kernel(types.int64(BYTES, records(INDEX), STARTS, BYTES, _TABLE, OUT_BYTES, OUT_LONGS, OUT_LONGS), bare=True)
def _write(data: Any, index: Any, starts: Any, op: Any, table: _Table, out: Any, begins: Any, stores: Any) -> int:
    """Writes one store value behind the other. Returns the first image with a damaged value, or -1."""
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
