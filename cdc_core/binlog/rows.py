"""Row images of one table's rows events: where each value starts. Compiled; values are read by `binlog.columns`.

What an after image leaves out and its before image has did not change, and is taken from there (MySQL manual,
`binlog_row_image`). Raises DecodeError with the event's place when bytes and lengths do not add up; never returns part
of an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import from_dtype, njit, types

from cdc_core.binlog.events import DELETE, INSERT, OPERATION, PARTIAL_UPDATE_ROWS, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.binlog.gather import Chunk
from cdc_core.binlog.images import (
    ABSENT,
    BYTES,
    DIFF,
    LAYOUT,
    NULL,
    STARTS,
    TWO,
    image_end,
    int64,
    little,
    rows_header,
    value_options,
)
from cdc_core.binlog.layout import layout_of
from cdc_core.errors import DecodeError
from cdc_core.source.block import INDEX

__all__ = ["ABSENT", "DELETE", "INSERT", "NULL", "UPDATE_AFTER", "UPDATE_BEFORE", "RowImages", "layout_of", "walk"]


@dataclass(frozen=True, slots=True)
class RowImages:
    """`starts[column, image]` is the offset of a value's first byte in the chunk's data (of its length prefix, if any),
    NULL, ABSENT, or DIFF and below (`binlog.images`). `op`, `event` (row of the chunk's index) and `row` (number
    within its event) are one an image. `new_full`, `old_full`: no image of that kind lacks a column. `diffs`: there are
    some; `astray`: and one is of a document that its before image does not have."""

    starts: npt.NDArray[np.int64]
    op: npt.NDArray[np.uint8]
    event: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
    new_full: bool
    old_full: bool
    diffs: bool = False
    astray: bool = False

    def __len__(self) -> int:
        return len(self.op)


def images_in(index: npt.NDArray[np.void]) -> int:
    """How many images the events have: an update's row has two."""
    pairs = OPERATION[index["type"]] == UPDATE_BEFORE
    return int(index["rows"].sum(dtype=np.int64) + index["rows"][pairs].sum(dtype=np.int64))


def walk(chunk: Chunk, layout: npt.NDArray[np.int32]) -> RowImages:
    """All images of a chunk whose events were annotated with a definition of this layout."""
    count = images_in(chunk.index)
    starts = np.empty((len(layout), count), np.int64)
    op, event, row = np.empty(count, np.uint8), np.empty(count, np.int32), np.empty(count, np.int32)
    bad, partial = _walk(chunk.data, chunk.index, layout, starts, op, event, row)
    if bad >= 0:
        raise DecodeError(
            "the rows of an event do not add up to its length",
            place=chunk.place(bad),
            hint="Check the source's binlog with mysqlbinlog --verify-binlog-checksum; reconnect if it is sound.",
        )
    diffs = bool(partial & 4)
    if partial:
        partial = _inherit(starts, op)
    return RowImages(starts, op, event, row, not partial & 1, not partial & 2, diffs, bool(partial & 8))


@njit(types.boolean(BYTES, types.int64, LAYOUT, STARTS, types.int64), nogil=True, cache=True)
def _mark_diffs(data: Any, bits_at: int, layout: Any, starts: Any, image: int) -> bool:
    """Turns the places of what changed of JSON values below zero; where that is nothing, the value is left out."""
    bit, found = 0, False
    for column in range(layout.size):
        if layout[column] < -15:
            start = starts[column, image]
            if data[bits_at + (bit >> 3)] >> (bit & 7) & 1 and start >= 0:
                nothing = little(data, start, -layout[column] & 15) == 0
                starts[column, image] = ABSENT if nothing else DIFF - start
                found = True
            bit += 1
    return found


@njit(
    TWO(
        BYTES,
        types.Array(from_dtype(INDEX), 1, "C", readonly=True),
        LAYOUT,
        STARTS,
        types.uint8[::1],
        types.int32[::1],
        types.int32[::1],
    ),
    nogil=True,
    cache=True,
)
def _walk(data: Any, index: Any, layout: Any, starts: Any, op: Any, event_of: Any, row_of: Any) -> tuple[int, int]:
    """Returns (the event that does not add up or -1, bits: 1 new images lack columns, 2 old ones do, 4 diffs)."""
    image, partial, columns = 0, 0, layout.size
    for i in range(index.size):
        event = index[i]
        offset, length = int64(event.offset), int64(event.length)
        operation = OPERATION[event.type]
        update = operation == UPDATE_BEFORE
        before, after, bits, bits_after, at = rows_header(data, offset, length, columns, update)
        if at < 0:
            return i, partial
        if bits < columns:
            partial |= 1 if operation == INSERT else 2
        if update and bits_after < columns:
            partial |= 1
        stop = offset + length
        for row in range(event.rows):
            number = int64(event.row_base) + row
            at = image_end(data, at, stop, layout, before, bits, starts, image)
            op[image], event_of[image], row_of[image] = operation, i, number
            image += 1
            bits_at = int64(-1)
            if event.type == PARTIAL_UPDATE_ROWS and at >= 0:
                bits_at, at = value_options(data, at, stop, layout)
            if update and at >= 0:
                at = image_end(data, at, stop, layout, after, bits_after, starts, image)
                op[image], event_of[image], row_of[image] = UPDATE_AFTER, i, number
                if bits_at >= 0 and at >= 0 and _mark_diffs(data, bits_at, layout, starts, image):
                    partial |= 4
                image += 1
            if at < 0:
                return i, partial
        if at != stop:
            return i, partial
    return -1, partial


@njit(types.int64(STARTS, types.uint8[::1]), nogil=True, cache=True)
def _inherit(starts: Any, op: Any) -> int:
    """Fills after images in from their before images. Returns the bits of `_walk` for what is still not there, and 8
    for a diff without its document."""
    partial = 0
    for column in range(starts.shape[0]):
        for image in range(op.size):
            if starts[column, image] == ABSENT and op[image] == UPDATE_AFTER:
                starts[column, image] = starts[column, image - 1]
            if starts[column, image] <= DIFF and starts[column, image - 1] < 0:
                partial |= 8
            if starts[column, image] == ABSENT:
                partial |= 1 if op[image] in (INSERT, UPDATE_AFTER) else 2
    return partial
