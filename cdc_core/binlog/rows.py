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

from cdc_core.binlog.events import DELETE, INSERT, OPERATION, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.binlog.gather import Chunk
from cdc_core.binlog.images import ABSENT, BYTES, LAYOUT, NULL, STARTS, TWO, image_end, int64, rows_header
from cdc_core.binlog.layout import layout_of
from cdc_core.errors import DecodeError
from cdc_core.source.block import INDEX

__all__ = ["ABSENT", "DELETE", "INSERT", "NULL", "UPDATE_AFTER", "UPDATE_BEFORE", "RowImages", "layout_of", "walk"]


@dataclass(frozen=True, slots=True)
class RowImages:
    """`starts[column, image]` is the offset of a value's first byte in the chunk's data (of its length prefix, if any),
    NULL or ABSENT. `op`, `event` (row of the chunk's index) and `row` (number within its event) are one an image.
    `new_full`, `old_full`: no image of that kind lacks a column."""

    starts: npt.NDArray[np.int64]
    op: npt.NDArray[np.uint8]
    event: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
    new_full: bool
    old_full: bool

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
    if partial:
        partial = _inherit(starts, op)
    return RowImages(starts, op, event, row, new_full=not partial & 1, old_full=not partial & 2)


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
    """Returns (the event that does not add up or -1, bits: 1 new images lack columns, 2 old ones do)."""
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
            if update and at >= 0:
                at = image_end(data, at, stop, layout, after, bits_after, starts, image)
                op[image], event_of[image], row_of[image] = UPDATE_AFTER, i, number
                image += 1
            if at < 0:
                return i, partial
        if at != stop:
            return i, partial
    return -1, partial


@njit(types.int64(STARTS, types.uint8[::1]), nogil=True, cache=True)
def _inherit(starts: Any, op: Any) -> int:
    """Fills after images in from their before images. Returns the bits of `_walk` for what is still not there."""
    partial = 0
    for column in range(starts.shape[0]):
        for image in range(op.size):
            if starts[column, image] == ABSENT and op[image] == UPDATE_AFTER:
                starts[column, image] = starts[column, image - 1]
            if starts[column, image] == ABSENT:
                partial |= 1 if op[image] in (INSERT, UPDATE_AFTER) else 2
    return partial
