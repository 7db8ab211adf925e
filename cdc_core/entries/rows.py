"""The store values of rows events: RowChange with its rows and columns, written by kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.events import DELETE, HEADER, INSERT, OPERATION, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.compiled.kernel import (
    BYTES,
    INTS,
    LONGS,
    OUT_BYTES,
    OUT_LONGS,
    Bytes,
    Longs,
    helper,
    int64,
    kernel,
    named,
    records,
)
from cdc_core.compiled.memory import little
from cdc_core.entries.cells import NULLED, OMITTED, UPDATED, TableCells
from cdc_core.entries.wire import block_size, put_head, put_part, put_varint, varint_size
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.images import RowImages

EVENT_TYPE = np.zeros(256, np.int32)  # Canal's EventType of a rows event's type
EVENT_TYPE[OPERATION == INSERT], EVENT_TYPE[OPERATION == UPDATE_BEFORE], EVENT_TYPE[OPERATION == DELETE] = 1, 2, 3


class _Cells(NamedTuple):
    state: Any
    ends: Any
    data: Any
    fixed: Any
    parts: Any


_GRID = types.uint8[:, ::1]
_PLACES = types.int64[:, ::1]
_CELLS = named(_Cells, _GRID, _PLACES, OUT_BYTES, BYTES, _PLACES)


class TableEntries:
    """One table's rows events of a window: `stores` are the sizes of their store values."""

    def __init__(self, chunk: Chunk, images: RowImages, cells: TableCells) -> None:
        self._chunk, self._images = chunk, images
        self._cells = _Cells(cells.state, cells.ends, cells.data, cells.fixed, cells.parts)
        self._sizes = np.empty(len(images), np.int64)
        self.stores = np.zeros(len(chunk.index), np.int64)
        _compare(self._cells, images.op)
        _measure(chunk.data, chunk.index, self._cells, images.op, images.event, self._sizes, self.stores)

    def __repr__(self) -> str:
        return f"<TableEntries events={len(self.stores)}>"

    def write(self, places: Longs, out: Bytes) -> None:
        """Writes each event's store value at its place."""
        images = self._images
        _write(self._chunk.data, self._chunk.index, self._cells, images.op, images.event, self._sizes, places, out)


@kernel(types.void(_CELLS, BYTES))
def _compare(cells: _Cells, op: Any) -> None:
    """Marks what an insert or an update changed."""
    state, ends, data = cells.state, cells.ends, cells.data
    for c in range(state.shape[0]):
        for i in range(state.shape[1]):
            if op[i] == INSERT:
                if state[c, i] != OMITTED:
                    state[c, i] |= UPDATED
            elif op[i] == UPDATE_AFTER and state[c, i] != OMITTED:
                now, before = state[c, i], state[c, i - 1]
                start, end, first = ends[c, i], ends[c, i + 1], ends[c, i - 1]
                same = now == before and end - start == ends[c, i] - first
                if same:
                    for k in range(end - start):
                        if data[start + k] != data[first + k]:
                            same = False
                            break
                if not same:
                    state[c, i] = now | UPDATED


@helper
def _cell_size(cells: _Cells, c: int, i: int) -> int:
    """Bytes of a Column message."""
    state = int64(cells.state[c, i])
    kind = state & 3
    size = cells.parts[c, kind] - cells.parts[c, kind - 1] + 2 + cells.parts[c, 4] - cells.parts[c, 3]
    if state & UPDATED:
        size += 2
    length = cells.ends[c, i + 1] - cells.ends[c, i]
    if kind != NULLED and length:
        size += block_size(length)
    return int64(size)


@kernel(types.void(BYTES, records(INDEX), _CELLS, BYTES, INTS, OUT_LONGS, OUT_LONGS))
def _measure(data: Any, index: Any, cells: _Cells, op: Any, event: Any, sizes: Any, stores: Any) -> None:
    """The bytes of each image's columns, and of each event's store value."""
    columns = cells.state.shape[0]
    for e in range(index.size):
        stores[e] = 5 + varint_size(little(data, int64(index[e].offset) + HEADER, 6))
    for i in range(op.size):
        size = int64(0)
        for c in range(columns):
            if cells.state[c, i] != OMITTED:
                size += block_size(_cell_size(cells, c, i))
        sizes[i] = size
        if op[i] == UPDATE_AFTER:
            size += sizes[i - 1]
        if op[i] != UPDATE_BEFORE:
            stores[event[i]] += block_size(size)


@helper
def _put_cells(tag: int, cells: _Cells, i: int, out: Bytes, at: int) -> int:
    """Writes an image's Column messages, each behind the tag; returns the end."""
    for c in range(cells.state.shape[0]):
        state = int64(cells.state[c, i])
        if state == OMITTED:
            continue
        kind = state & 3
        at = put_head(tag, _cell_size(cells, c, i), out, at)
        at = put_part(cells.fixed, cells.parts[c, kind - 1], cells.parts[c, kind], out, at)
        if state & UPDATED:
            out[at], out[at + 1] = 0x28, 1
            at += 2
        out[at], out[at + 1] = 0x30, kind == NULLED
        at += 2
        start, end = cells.ends[c, i], cells.ends[c, i + 1]
        if kind != NULLED and end > start:
            at = put_head(0x42, end - start, out, at)
            at = put_part(cells.data, start, end, out, at)
        at = put_part(cells.fixed, cells.parts[c, 3], cells.parts[c, 4], out, at)
    return at


@kernel(types.void(BYTES, records(INDEX), _CELLS, BYTES, INTS, LONGS, LONGS, OUT_BYTES))
def _write(data: Any, index: Any, cells: _Cells, op: Any, event: Any, sizes: Any, places: Any, out: Any) -> None:
    last, at = int64(-1), int64(0)
    for i in range(op.size):
        if event[i] != last:
            last = int64(event[i])
            at = places[last]
            table_id = little(data, int64(index[last].offset) + HEADER, 6)
            out[at] = 0x08
            at = put_varint(table_id, out, at + 1)
            out[at], out[at + 1], out[at + 2], out[at + 3] = 0x10, EVENT_TYPE[index[last].type], 0x50, 0
            at += 4
        if op[i] == UPDATE_AFTER:
            at = _put_cells(0x12, cells, i, out, at)
        elif op[i] == UPDATE_BEFORE:
            at = _put_cells(0x0A, cells, i, out, put_head(0x62, sizes[i] + sizes[i + 1], out, at))
        else:
            at = _put_cells(0x12 if op[i] == INSERT else 0x0A, cells, i, out, put_head(0x62, sizes[i], out, at))
