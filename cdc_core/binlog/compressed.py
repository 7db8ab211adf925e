"""Expands MariaDB's compressed events (log_bin_compress) into the plain events that they stand for.

The events keep their order, in pieces of about PIECE, or one large event alone. An event that is damaged, or
contradicts the size it states, is a DecodeError before more than that size is held.
Source: MariaDB knowledge base, "Compressing Events to Reduce Size of the Binary Log".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import Block
from cdc_core.binlog.damage import damaged
from cdc_core.binlog.events import HEADER, MAX_EVENT, OPERATION, PLAIN, UPDATE_BEFORE, EventType
from cdc_core.errors import DecodeError

PIECE = 1 << 20
_QUERY_HEADER, _ROWS_HEADER = 13, 8
_BITE = 1 << 16  # compressed bytes that are inflated at a time
_MOST = 1040  # the most bytes that zlib makes of one
_WRONG_SIZE = "its content does not have the stated size"
_ZLIB = 0x80  # upper bits of the first byte; its lower three count the bytes of the size

Bytes = npt.NDArray[np.uint8]


def expand(block: Block) -> Iterator[Block]:
    """A block's pieces: the block itself when it holds no compressed event."""
    rows = np.flatnonzero(PLAIN[block.index["type"]])
    if not len(rows):
        yield block
        return
    sizes = block.index["length"].astype(np.int64)
    heads = {row: _head(block, row) for row in rows.tolist()}
    for row, (at, size, _) in heads.items():
        sizes[row] = at + size
    sums = np.cumsum(sizes)
    low, start = 0, block.start
    while low < len(sizes):
        full = int(np.searchsorted(sums, (sums[low - 1] if low else 0) + PIECE, side="right"))
        high = max(full, low + 1)
        piece = _piece(block, start, slice(low, high), sizes[low:high], heads)
        yield piece
        low, start = high, piece.end


def _piece(
    block: Block, start: int, part: slice, sizes: npt.NDArray[np.int64], heads: dict[int, tuple[int, int, int]]
) -> Block:
    """Index rows `part`, expanded to `sizes` bytes each, as one block."""
    index = block.index[part].copy()
    ends = np.cumsum(sizes)
    data = np.empty(int(ends[-1]), np.uint8)
    index["offset"], index["length"], index["type"] = ends - sizes, sizes, _plain(index["type"])
    run = part.start  # the first plain event that is not copied yet
    for row in [*(row for row in heads if part.start <= row < part.stop), part.stop]:
        _copy(block, run, row, data, int(ends[run - part.start] - sizes[run - part.start]) if run < row else 0)
        if row < part.stop:
            place, size = int(index["offset"][row - part.start]), int(sizes[row - part.start])
            _inflate(block, row, heads[row], data[place : place + size])
            data[place + 4] = index["type"][row - part.start]
        run = row + 1
    return Block(block.journal_name, start, data, index)


def _plain(types: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.where(PLAIN[types] > 0, PLAIN[types], types)


def _copy(block: Block, low: int, high: int, into: Bytes, place: int) -> None:
    """Copies the events of index rows [low, high), which lie side by side."""
    if low < high:
        first, last = block.index[low], block.index[high - 1]
        whole = block.data[int(first["offset"]) : int(last["offset"]) + int(last["length"])]
        into[place : place + len(whole)] = whole


def _inflate(block: Block, row: int, head: tuple[int, int, int], into: Bytes) -> None:
    """Writes one event: its head as it is, then its inflated body."""
    at, size, packed_at = head
    offset, length = int(block.index["offset"][row]), int(block.index["length"][row])
    into[:at] = block.data[offset : offset + at]
    inflater, packed, body, done = zlib.decompressobj(), block.data.data[: offset + length], into.data[at:], 0
    for low in range(offset + packed_at, offset + length, _BITE):
        try:
            part = inflater.decompress(packed[low : low + _BITE], size - done + 1)
        except zlib.error as error:
            raise _damaged(block, row, str(error)) from error
        if len(part) > size - done or inflater.unused_data:
            raise _damaged(block, row, _WRONG_SIZE)
        body[done : done + len(part)] = part
        done += len(part)
    if done != size or not inflater.eof:
        raise _damaged(block, row, _WRONG_SIZE)


def _head(block: Block, row: int) -> tuple[int, int, int]:
    """Of a compressed event: the bytes before its body, the size of the inflated body, and where the compressed bytes
    begin. Offsets count from the event's start."""
    offset, length, kind = (int(block.index[name][row]) for name in ("offset", "length", "type"))
    event = block.data.data[offset : offset + length]
    try:
        at = _query_body(event) if PLAIN[kind] == EventType.QUERY else _rows_body(event, kind)
        first = event[at]
        width = first & 7
        size = int.from_bytes(event[at + 1 : at + 1 + width], "big")
    except IndexError:
        raise _damaged(block, row, "it is too short") from None
    packed = at + 1 + width
    if first & ~7 != _ZLIB or not 1 <= width <= 4:
        raise _damaged(block, row, "it is not compressed with zlib")
    if packed > length or size > min(_MOST * length, MAX_EVENT):
        raise _damaged(block, row, _WRONG_SIZE)
    return at, size, packed


def _query_body(event: memoryview) -> int:
    """Where the statement begins: after the status variables and the database."""
    status = int.from_bytes(event[HEADER + 11 : HEADER + 13], "little")
    return HEADER + _QUERY_HEADER + status + event[HEADER + 8] + 1


def _rows_body(event: memoryview, kind: int) -> int:
    """Where the row images begin: after the bitmaps of columns."""
    at = HEADER + _ROWS_HEADER
    if PLAIN[kind] >= EventType.WRITE_ROWS:  # version 2: extra data, its length included in it
        at += int.from_bytes(event[at : at + 2], "little")
    columns, at = event[at], at + 1
    if columns == 252:
        columns, at = int.from_bytes(event[at : at + 2], "little"), at + 2
    bitmap = (columns + 7) // 8
    return at + bitmap * (2 if OPERATION[PLAIN[kind]] == UPDATE_BEFORE else 1)


def _damaged(block: Block, row: int, why: str) -> DecodeError:
    return damaged("a compressed event", why, block.place(row))
