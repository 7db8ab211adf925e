"""The row images of one table's rows events: where each value starts. `rows.columns` reads the values.

A column that an after image leaves out, and its before image has, did not change: it is taken from there (MySQL manual,
`binlog_row_image`). An event is returned whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.damage import damaged
from cdc_core.binlog.events import DELETE, INSERT, OPERATION, UPDATE_AFTER, UPDATE_BEFORE, EventType
from cdc_core.binlog.row_image import ABSENT, DIFF, LAYOUT, STARTS, image_end, rows_header, value_options
from cdc_core.compiled.kernel import BYTES, OUT_BYTES, OUT_INTS, PAIR, Bytes, Ints, int64, kernel, named, records
from cdc_core.compiled.memory import little
from cdc_core.rows.chunks import Chunk

_NEW_LACK, _OLD_LACK, _DIFFS, _ASTRAY = 1, 2, 4, 8  # what kernels found in the images


@dataclass(frozen=True, slots=True)
class RowImages:
    """All images of a chunk. `starts[column, image]` is the offset of a value in the chunk's data (of its length
    prefix, if it has one), NULL, ABSENT, or DIFF and below (`binlog.row_image`). Each image has its `op`, its `event`
    (row of the chunk's index) and its `row` (number within the event).

    `new_full`, `old_full`: no image of that kind lacks a column. `diffs`: some JSON values are logged as changes;
    `astray`: and for one of them the document before it is not logged."""

    starts: npt.NDArray[np.int64]
    op: Bytes
    event: Ints
    row: Ints
    new_full: bool
    old_full: bool
    diffs: bool = False
    astray: bool = False

    def __len__(self) -> int:
        return len(self.op)

    def is_old(self) -> npt.NDArray[np.bool_]:
        """Which images show a row as it was: those of deleted rows, and of updated ones before the update."""
        return np.asarray((self.op == DELETE) | (self.op == UPDATE_BEFORE))

    def lacking(self) -> npt.NDArray[np.bool_]:
        """Which images lack a column."""
        return np.asarray((self.starts == ABSENT).any(axis=0))

    def first_astray(self) -> int:
        """The first image with a change of a document that is not logged."""
        return 1 + int(((self.starts[:, 1:] <= DIFF) & (self.starts[:, :-1] < 0)).any(axis=0).argmax())


class _Walked(NamedTuple):
    starts: Any
    op: Any
    event: Any
    row: Any


_WALKED = named(_Walked, STARTS, OUT_BYTES, OUT_INTS, OUT_INTS)


def images_in(index: npt.NDArray[np.void]) -> int:
    """How many images the events have: an update's row has two."""
    pairs = OPERATION[index["type"]] == UPDATE_BEFORE
    return int(index["rows"].sum(dtype=np.int64) + index["rows"][pairs].sum(dtype=np.int64))


def walk(chunk: Chunk, layout: Ints) -> RowImages:
    """All images of a chunk, whose events belong to a table with this `schema.row_layout`. Raises DecodeError."""
    count = images_in(chunk.index)
    starts = np.empty((len(layout), count), np.int64)
    walked = _Walked(starts, np.empty(count, np.uint8), np.empty(count, np.int32), np.empty(count, np.int32))
    bad, found = _walk(chunk.data, chunk.index, layout, walked)
    if bad >= 0:
        raise damaged("a rows event", "its rows do not add up to its length", chunk.place(bad))
    diffs = bool(found & _DIFFS)
    if found:
        found = _inherit(starts, walked.op)
    return RowImages(*walked, not found & _NEW_LACK, not found & _OLD_LACK, diffs, bool(found & _ASTRAY))


@kernel(types.boolean(BYTES, types.int64, LAYOUT, STARTS, types.int64))
def _mark_diffs(data: Any, bits_at: int, layout: Any, starts: Any, image: int) -> bool:
    """Marks the JSON values of an image that are logged as changes. A value without any change is ABSENT."""
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


@kernel(PAIR(BYTES, records(INDEX), LAYOUT, _WALKED))
def _walk(data: Any, index: Any, layout: Any, out: _Walked) -> tuple[int, int]:
    """Returns the event that does not add up, or -1, and what was found in the images."""
    image, found, columns = 0, 0, layout.size
    starts, op, event_of, row_of = out
    for i in range(index.size):
        event = index[i]
        offset, length = int64(event.offset), int64(event.length)
        operation = OPERATION[event.type]
        update = operation == UPDATE_BEFORE
        before, after, at = rows_header(data, offset, length, columns, update)
        if at < 0:
            return i, found
        if before.bits < columns:
            found |= _NEW_LACK if operation == INSERT else _OLD_LACK
        if update and after.bits < columns:
            found |= _NEW_LACK
        stop = offset + length
        for row in range(event.rows):
            number = int64(event.row_base) + row
            at = image_end(data, at, stop, layout, before, starts, image)
            op[image], event_of[image], row_of[image] = operation, i, number
            image += 1
            bits_at = int64(-1)
            if event.type == EventType.PARTIAL_UPDATE_ROWS and at >= 0:
                bits_at, at = value_options(data, at, stop, layout)
            if update and at >= 0:
                at = image_end(data, at, stop, layout, after, starts, image)
                op[image], event_of[image], row_of[image] = UPDATE_AFTER, i, number
                if bits_at >= 0 and at >= 0 and _mark_diffs(data, bits_at, layout, starts, image):
                    found |= _DIFFS
                image += 1
            if at < 0:
                return i, found
        if at != stop:
            return i, found
    return -1, found


@kernel(types.int64(STARTS, OUT_BYTES))
def _inherit(starts: Any, op: Any) -> int:
    """Fills what after images lack from their before images. Returns what is still found in the images then."""
    found = 0
    for column in range(starts.shape[0]):
        for image in range(op.size):
            if starts[column, image] == ABSENT and op[image] == UPDATE_AFTER:
                starts[column, image] = starts[column, image - 1]
            if starts[column, image] <= DIFF and starts[column, image - 1] < 0:
                found |= _ASTRAY
            if starts[column, image] == ABSENT:
                found |= _NEW_LACK if op[image] in (INSERT, UPDATE_AFTER) else _OLD_LACK
    return found
