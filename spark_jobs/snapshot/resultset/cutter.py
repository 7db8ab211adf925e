"""The kernel that finds the cells of rows: bytes of packets in, the start of each cell out.

A row of the binary protocol is a zero byte, a bitmap of NULLs, and its values: numbers in their own width, all else
after a length. Source: MySQL source documentation, "Binary Protocol Resultset Row", "Protocol::LengthEncodedInteger".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from numba import types

from cdc_core.compiled.kernel import INTS, OUT_BYTES, Bytes, Ints, helper, int64, kernel, named
from cdc_core.compiled.memory import little

PACKET = 4  # bytes before a packet's payload: its length 3, its sequence number 1
FULL_PACKET = 0xFFFFFF  # a payload of this length goes on in the next packet
NULL = -1
_ROW, _END, _ERROR = 0x00, 0xFE, 0xFF  # first byte of a payload
_BITS = 2  # the bitmap's first bits are not used
_OUTPUT = types.int64[:, ::1]


class Cut(IntEnum):
    """Why the cut stopped."""

    MORE = 0  # the rest of a packet is still to come
    FULL = 1  # there is no room for the starts of another row
    LARGE = 2  # a row that spans packets
    END = 3
    ERROR = 4
    BAD_SEQUENCE = 5
    BAD_ROW = 6


class Buffered(NamedTuple):
    """Packets in `data[at:stop]`; the first has this sequence number. No other named tuple that kernels take may have
    this class's name in one process: numba distinguishes values of equal fields by it."""

    data: Bytes
    at: int
    stop: int
    sequence: int


_BUFFERED = named(Buffered, OUT_BYTES, types.int64, types.int64, types.int64)
_PROGRESS = types.UniTuple(types.int64, 4)  # type: ignore[no-untyped-call]


@helper
def text_at(data: Bytes, at: int) -> tuple[int, int]:
    """Returns the length of the value after a length-encoded integer, and where it starts. A length is negative if the
    first byte is not a length prefix."""
    first = int64(data[at])
    if first <= 250:
        return first, at + 1
    if first == 0xFC:
        return little(data, at + 1, 2), at + 3
    if first == 0xFD:
        return little(data, at + 1, 3), at + 4
    if first == 0xFE:
        return little(data, at + 1, 8), at + 9
    return -1, at


@kernel(types.boolean(OUT_BYTES, types.int64, types.int64, INTS, _OUTPUT, types.int64))
def cells(data: Bytes, at: int, stop: int, widths: Ints, starts: Any, row: int) -> bool:
    """Writes where the cells of the row in `data[at:stop]` start, texts at their length. False for damage."""
    bitmap, at = at + 1, at + 1 + (widths.size + _BITS + 7) // 8
    if at > stop:
        return False
    for column in range(widths.size):
        bit = column + _BITS
        if data[bitmap + (bit >> 3)] >> (bit & 7) & 1:
            starts[column, row] = NULL
            continue
        starts[column, row] = at
        width = int64(widths[column])
        if width == 0:
            if at >= stop:
                return False
            first = data[at]
            prefix = 1 if first <= 250 else (3 if first == 0xFC else (4 if first == 0xFD else 9))
            if at + prefix > stop:
                return False
            width, at = text_at(data, at)
            if width < 0 or width > stop - at:
                return False
        at += width
        if at > stop:
            return False
    return at == stop


@kernel(_PROGRESS(_BUFFERED, INTS, _OUTPUT, types.int64))
def cut(buffered: Buffered, widths: Ints, starts: Any, row: int) -> tuple[int, int, int, int]:
    """Cuts rows from number `row` on. `widths` has 0 for a text. Returns a Cut, where the next packet is, its sequence
    number, and the number of rows in `starts`."""
    data, at, stop, sequence = buffered
    room = starts.shape[1]
    while stop - at >= PACKET:
        size = little(data, at, 3)
        if int64(data[at + 3]) != sequence:
            return Cut.BAD_SEQUENCE, at, sequence, row
        if size == FULL_PACKET:
            return (Cut.LARGE if row < room else Cut.FULL), at, sequence, row
        if stop - at - PACKET < size:
            break
        kind = int64(data[at + PACKET]) if size else -1
        if kind in (_END, _ERROR):
            return (Cut.END if kind == _END else Cut.ERROR), at, sequence, row
        if row == room:
            return Cut.FULL, at, sequence, row
        if kind != _ROW or not cells(data, at + PACKET, at + PACKET + size, widths, starts, row):
            return Cut.BAD_ROW, at, sequence, row
        at += PACKET + size
        sequence = (sequence + 1) & 0xFF
        row += 1
    return Cut.MORE, at, sequence, row
