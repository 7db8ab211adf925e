"""MySQL's binary JSON to the text that `CAST(j AS CHAR)` gives.

A document is a type and a value. Objects and arrays hold offsets from their own start, so the writer walks them with a
stack of its own. Nothing is trusted: offsets stay within their container, depth is bounded as in MySQL, and a text is
bounded by its document's size, so that damage cannot make the writer leave its buffers or run for ever.
JSON of MariaDB is text: see `strings`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_INTS, Bytes, Longs, helper, int64, kernel
from cdc_core.compiled.memory import little
from cdc_core.rows.columns.arrays import variable
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.json_opaque import put_opaque
from cdc_core.rows.columns.json_scalar import NUMBER_SIZES, put_literal, put_number, put_quoted, read_size
from cdc_core.rows.columns.strings import checked
from cdc_core.schema.table import Column

_MAX_DEPTH = 100
_BASE, _END, _COUNT, _NEXT, _UNIT, _OBJECT = range(6)  # of one open container on the stack
_LARGE_ARRAY, _LITERAL, _DOUBLE, _STRING, _OPAQUE = 0x03, 0x04, 0x0B, 0x0C, 0x0F


def arrow_type(column: Column) -> pa.DataType:  # noqa: ARG001
    return pa.string()


def decode(cells: Cells) -> pa.Array:
    offsets = np.zeros(len(cells) + 1, np.int32)
    out = np.empty(3 * len(cells.data) + _room(0), np.uint8)
    image, code = 0, int(Fault.FULL)
    while code == Fault.FULL:
        code, image = _print(cells.data, cells.starts, cells.column.meta, image, out, offsets)
        if code == Fault.FULL:
            used, out = out[: offsets[image]], np.empty(2 * len(out), np.uint8)
            out[: len(used)] = used
    cells.check((code, image))
    return checked(cells, variable(pa.string(), offsets, out[: offsets[-1]], cells.present()))


@helper
def _room(size: int) -> int:
    """Bytes that must be free for a document of `size` bytes: twice its longest text, since one value may overshoot."""
    return 16 * size + 1024


@helper
def _open(data: Bytes, kind: int, value: int, end: int, stack: npt.NDArray[np.int64], depth: int) -> bool:
    """Pushes an object or array; false when its header does not fit."""
    unit = 4 if kind & 1 else 2
    is_object = 1 if kind < 2 else 0
    if value + 2 * unit > end:
        return False
    count, size = little(data, value, unit), little(data, value + unit, unit)
    header = 2 * unit + count * ((1 + unit) + is_object * (unit + 2))
    if size > end - value or header > size:
        return False
    stack[depth, _BASE], stack[depth, _END] = value, value + size
    stack[depth, _COUNT], stack[depth, _NEXT] = count, 0
    stack[depth, _UNIT], stack[depth, _OBJECT] = unit, is_object
    return True


@helper
def _separate(data: Bytes, out: Bytes, at: int, stack: npt.NDArray[np.int64], top: int) -> Answer:
    """The comma before the next value, and its key."""
    number, unit, base = stack[top, _NEXT], stack[top, _UNIT], stack[top, _BASE]
    if number:
        out[at], out[at + 1] = 0x2C, 0x20
        at += 2
    if not stack[top, _OBJECT]:
        return Fault.OK, at
    entry = base + 2 * unit + number * (unit + 2)
    key = base + little(data, entry, unit)
    length = little(data, entry + unit, 2)
    if key + length > stack[top, _END]:
        return Fault.MALFORMED, at
    at = put_quoted(data, key, key + length, out, at)
    out[at], out[at + 1] = 0x3A, 0x20
    return Fault.OK, at + 2


@helper
def _step(data: Bytes, stack: npt.NDArray[np.int64], top: int) -> tuple[int, int, int]:
    """Type, start and limit of the next value in the container; start -1 when it lies outside."""
    number, unit, base, end = stack[top, _NEXT], stack[top, _UNIT], stack[top, _BASE], stack[top, _END]
    keys = stack[top, _OBJECT] * stack[top, _COUNT] * (unit + 2)
    entry = base + 2 * unit + keys + number * (1 + unit)
    stack[top, _NEXT] = number + 1
    kind = int64(data[entry])
    if kind >= _LITERAL and kind < _DOUBLE and NUMBER_SIZES[kind] <= unit:
        return kind, entry + 1, entry + 1 + unit  # small values stand in the entry itself
    offset = little(data, entry + 1, unit)
    return kind, (base + offset if offset < end - base else -1), end


@helper
def _scalar(data: Bytes, kind: int, value: int, end: int, out: Bytes, at: int) -> Answer:
    if kind == _LITERAL:
        return (Fault.SHORT, at) if value >= end else put_literal(int64(data[value]), out, at)
    if kind <= _DOUBLE:
        return put_number(data, kind, value, end, out, at)
    if kind == _STRING:
        length, low = read_size(data, value, end)
        if length < 0:
            return Fault.MALFORMED, at
        return Fault.OK, put_quoted(data, low, low + length, out, at)
    if kind == _OPAQUE:
        return put_opaque(data, value, end, out, at)
    return Fault.MALFORMED, at


@helper
def write_document(data: Bytes, low: int, high: int, out: Bytes, at: int, stack: npt.NDArray[np.int64]) -> Answer:
    """Writes one document; returns a Fault and the end. An empty document is null, as for the server."""
    if low == high:
        return put_literal(0, out, at)
    budget = at + _room(high - low) // 2
    kind, value, end, depth = int64(data[low]), low + 1, high, 0
    while True:
        if kind <= _LARGE_ARRAY:
            if depth == _MAX_DEPTH or not _open(data, kind, value, end, stack, depth):
                return Fault.MALFORMED, at
            out[at] = 0x7B if stack[depth, _OBJECT] else 0x5B
            at += 1
            depth += 1
        else:
            code, at = _scalar(data, kind, value, end, out, at)
            if code != Fault.OK:
                return code, at
        while depth and stack[depth - 1, _NEXT] == stack[depth - 1, _COUNT]:
            depth -= 1
            out[at] = 0x7D if stack[depth, _OBJECT] else 0x5D
            at += 1
        if at > budget:
            return Fault.MALFORMED, at
        if depth == 0:
            return Fault.OK, at
        code, at = _separate(data, out, at, stack, depth - 1)
        if code != Fault.OK:
            return code, at
        kind, value, end = _step(data, stack, depth - 1)
        if value < 0:
            return Fault.MALFORMED, at


@kernel(ANSWER(BYTES, LONGS, types.int64, types.int64, OUT_BYTES, OUT_INTS))
def _print(data: Bytes, starts: Longs, prefix: int, image: int, out: Bytes, offsets: npt.NDArray[np.int32]) -> Answer:
    """Documents from `image` on, until `out` is full."""
    stack = np.empty((_MAX_DEPTH, 6), np.int64)
    for i in range(image, len(starts)):
        start, at = starts[i], int64(offsets[i])
        if start >= 0:
            if start + prefix > len(data):
                return Fault.SHORT, i
            size = little(data, start, prefix)
            low = start + prefix
            if size > len(data) - low:
                return Fault.SHORT, i
            if at + _room(size) > len(out):
                return Fault.FULL, i
            code, at = write_document(data, low, low + size, out, at, stack)
            if code != Fault.OK:
                return code, i
            if at > MAX_TEXT:
                return Fault.TOO_LARGE, i
        offsets[i + 1] = at
    return Fault.OK, 0
