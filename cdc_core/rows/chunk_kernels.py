"""The kernels that choose a table's rows events among the events of blocks, and copy them side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX, Kind
from cdc_core.binlog.events import OPERATION, UPDATE_BEFORE
from cdc_core.compiled.kernel import BYTES, OUT_BYTES, OUT_INTS, OUT_LONGS, Longs, int64, kernel, named, records
from cdc_core.compiled.memory import move

CHUNK_IMAGES = 65536
EVENTS, BYTES_USED, IMAGES, ORDINAL, NEXT = range(5)  # places in the `state` of `copy`
EVERY: Longs = np.zeros(0, np.int64)


class TableEvents(NamedTuple):
    """Events of a journal with one of the schema ids in `mask` that end beyond `floor`."""

    mask: Any
    floor: int
    journal: int


class Wanted(NamedTuple):
    """Images by their ordinals: from `low` to `high` (exclusive) and, unless `every`, among `kept` (rising)."""

    low: int = 0
    high: int = 1 << 62
    kept: Longs = EVERY
    every: bool = True


class ChunkArrays(NamedTuple):
    """A chunk's arrays, which are being filled."""

    data: Any
    index: Any
    journals: Any
    ordinals: Any


_TABLE = named(TableEvents, types.boolean[::1], types.int64, types.int64)
WANTED = named(Wanted, types.int64, types.int64, OUT_LONGS, types.boolean)
_TARGET = named(ChunkArrays, OUT_BYTES, records(INDEX, writable=True), OUT_INTS, OUT_LONGS)


@kernel(types.int64(BYTES, records(INDEX), types.int64, types.int64, _TABLE, WANTED, _TARGET, OUT_LONGS))
def copy(
    data: Any, index: Any, low: int, high: int, table: TableEvents, wanted: Wanted, target: ChunkArrays, state: Any
) -> int:
    """Copies what is wanted of index rows [low, high). Returns `high`, or the row that no longer fits."""
    mask, floor, journal = table
    first, last, kept, every = wanted
    into, into_index, journals, ordinals = target
    for i in range(low, high):
        event = index[i]
        if event.kind != Kind.ROWS or event.end <= floor or event.schema >= mask.size or not mask[event.schema]:
            continue
        images = int64(event.rows)
        if OPERATION[event.type] == UPDATE_BEFORE:
            images *= 2
        ordinal = state[ORDINAL]
        if ordinal >= last:
            return i
        take = ordinal + images > first
        if take and not every:
            while state[NEXT] < kept.size and kept[state[NEXT]] < ordinal:
                state[NEXT] += 1
            take = state[NEXT] < kept.size and kept[state[NEXT]] < ordinal + images
        if take:
            count, size, length = state[EVENTS], state[BYTES_USED], int64(event.length)
            if size + length > into.size or count == into_index.size:
                return i
            if count > 0 and state[IMAGES] + images > CHUNK_IMAGES:
                return i
            move(into, size, data, int64(event.offset), length)
            into_index[count] = event
            into_index[count].offset = size
            journals[count] = journal
            ordinals[count] = ordinal
            state[EVENTS], state[BYTES_USED] = count + 1, size + length
            state[IMAGES] += images
        state[ORDINAL] = ordinal + images
    return high


@kernel(types.void(records(INDEX), types.int64, types.int64, OUT_LONGS))
def count_images(index: Any, low: int, high: int, images: Any) -> None:
    """Adds the images of rows events to those of their schema id."""
    for i in range(low, high):
        event = index[i]
        if event.kind == Kind.ROWS and event.schema < images.size:
            images[event.schema] += int64(event.rows) * (2 if OPERATION[event.type] == UPDATE_BEFORE else 1)


@kernel(types.void(records(INDEX), types.int64, types.int64, _TABLE, OUT_LONGS))
def count_rows(index: Any, low: int, high: int, table: TableEvents, counts: Any) -> None:
    """Adds the changed rows of the table's events to those of their operation."""
    mask, floor, _ = table
    for i in range(low, high):
        event = index[i]
        if event.kind == Kind.ROWS and event.end > floor and event.schema < mask.size and mask[event.schema]:
            counts[OPERATION[event.type]] += int64(event.rows)
