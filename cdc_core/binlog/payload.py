"""Expands TRANSACTION_PAYLOAD events: blocks in which the events inside stand as if they had been sent one by one.

The events stay the same, in the same order. No piece is much larger than PIECE, unless it is one large event alone. A
payload that is damaged, or contradicts the size it states, is a DecodeError before more than that size is held.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from cdc_core.binlog.block import INDEX, Block
from cdc_core.binlog.damage import damaged
from cdc_core.binlog.events import HEADER, EventType
from cdc_core.binlog.inner import FIELDS, STEP, Part, assemble, cut, read_fields
from cdc_core.errors import DecodeError

PIECE = 4 * STEP
_ZSTD, _NONE = 0, 255
_WINDOW = 1 << 27  # the largest of zstd's levels
_WRONG_SIZE = "its content does not have the stated size"
_NO_ROWS = np.zeros(0, INDEX)

Bytes = npt.NDArray[np.uint8]


def expand(block: Block) -> Iterator[Block]:
    """A block's pieces: the block itself when it holds no payload."""
    rows = np.flatnonzero(block.index["type"] == EventType.TRANSACTION_PAYLOAD)
    if not len(rows):
        yield block
        return
    opener = _Opener(block, rows)
    low = 0
    for high in opener.cuts():
        first, last = np.searchsorted(rows, (low, high)).tolist()
        payloads = opener.fields[first:last].tolist()
        if payloads and payloads[0][-1] > STEP:
            yield from opener.stream(*payloads[0])
        else:
            yield opener.batch(low, high, payloads)
        low = high


class _Opener:
    """One block's payloads. `fields` has a row for each payload, `sizes` one for each event: its expanded bytes."""

    def __init__(self, block: Block, rows: npt.NDArray[np.int64]) -> None:
        self.block = block
        self.start = block.start  # of the next piece
        self.fields = np.zeros(len(rows), FIELDS)
        self.fields["row"] = rows
        bad = read_fields(block.data, block.index, self.fields)
        if bad >= 0:
            raise self.damaged(int(rows[bad]), "its header does not add up to its length")
        self.sizes = block.index["length"].astype(np.int64)
        too_much = np.flatnonzero(self.fields["size"] // STEP + 1 >= self.sizes[rows])
        if len(too_much):
            raise self.damaged(int(rows[too_much[0]]), "it states more bytes than its length can hold")
        self.sizes[rows] = self.fields["size"]
        self._zstd = zstandard.ZstdDecompressor(max_window_size=_WINDOW)

    def cuts(self) -> Iterator[int]:
        """Where pieces end, as index rows. A large payload is a piece alone; others are grouped up to PIECE."""
        large = self.fields["row"][self.fields["size"] > STEP].tolist()
        bounds = sorted({0, *large, *(row + 1 for row in large), len(self.block.index)})
        sums = np.cumsum(self.sizes)
        for low, high in pairwise(bounds):
            while low < high:
                full = int(np.searchsorted(sums, (sums[low - 1] if low else 0) + PIECE, side="right"))
                low = min(max(full, low + 1), high)
                yield low

    def batch(self, low: int, high: int, payloads: list[tuple[int, ...]]) -> Block:
        """Index rows [low, high), expanded, as one block. `payloads` are the fields of those among them."""
        offsets = np.zeros(high - low + 1, np.int64)
        np.cumsum(self.sizes[low:high], out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        view = data.data
        for row, at, length, kind, size in payloads:
            place = int(offsets[row - low])
            view[place : place + size] = self._inflate(row, at, length, kind, size)
        whole = self.block.data, self.block.index, low, high, offsets, data
        count = assemble(*whole, _NO_ROWS)
        if count < 0:
            raise self.damaged(-1 - count, "the events inside do not add up")
        index = np.empty(count, INDEX)
        assemble(*whole, index)
        return self._piece(data, index)

    def _inflate(self, row: int, at: int, length: int, kind: int, size: int) -> Any:
        """The content of a small payload."""
        found: bytes | memoryview = self.block.data.data[at : at + length]
        if kind not in (_ZSTD, _NONE):
            raise self._unknown(row, kind)
        try:
            if kind == _ZSTD:
                if zstandard.frame_content_size(found) not in (-1, size):  # zstd would trust it
                    raise self.damaged(row, _WRONG_SIZE)
                found = self._zstd.decompress(found, max_output_size=size, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise self.damaged(row, str(error)) from error
        if len(found) != size:
            raise self.damaged(row, _WRONG_SIZE)
        return found

    def stream(self, row: int, at: int, length: int, kind: int, total: int) -> Iterator[Block]:
        """A large payload, piece by piece. Each piece reads up to the end of a STEP."""
        event = self.block.index[row]
        end, outer = int(event["end"]), int(event["length"])
        size = int.from_bytes(self.block.data[int(event["offset"]) + 9 :][:4].tobytes(), "little")
        source, read, rest = self._open(row, at, length, kind), 0, np.zeros(0, np.uint8)
        while read < total:
            upto = min(total, -(-max(read + PIECE, read + _missing(rest)) // STEP) * STEP)
            data = np.empty(len(rest) + upto - read, np.uint8)
            data[: len(rest)] = rest
            self._fill(source, data[len(rest) :], row)
            first, read = read - len(rest), upto
            part = Part(first, total, end, outer, size)
            count, stop = cut(data, 0, len(data), part, _NO_ROWS, 0)
            if count < 0:
                raise self.damaged(row, "an event inside does not add up")
            if count:
                index = np.empty(count, INDEX)
                cut(data, 0, len(data), part, index, 0)
                yield self._piece(data[:stop], index)
            rest = data[stop:]
        if len(rest) or self._read(source, np.empty(1, np.uint8), row):
            raise self.damaged(row, _WRONG_SIZE)

    def _open(self, row: int, at: int, length: int, kind: int) -> Any:
        packed = self.block.data.data[at : at + length]
        if kind == _NONE:
            return io.BytesIO(packed)
        if kind == _ZSTD:
            return self._zstd.stream_reader(packed, read_across_frames=True)
        raise self._unknown(row, kind)

    def _fill(self, source: Any, into: Bytes, row: int) -> None:
        done = 0
        while done < len(into):
            count = self._read(source, into[done:], row)
            if not count:
                raise self.damaged(row, _WRONG_SIZE)
            done += count

    def _read(self, source: Any, into: Bytes, row: int) -> int:
        try:
            return int(source.readinto(into.data))
        except zstandard.ZstdError as error:
            raise self.damaged(row, str(error)) from error

    def _piece(self, data: Bytes, index: npt.NDArray[np.void]) -> Block:
        piece = Block(self.block.journal_name, self.start, data, index)
        self.start = piece.end
        return piece

    def damaged(self, row: int, why: str) -> DecodeError:
        return damaged("a compressed transaction", why, self.block.place(row))

    def _unknown(self, row: int, kind: int) -> DecodeError:
        return DecodeError(
            f"a transaction is compressed by a method that is not known: {kind}",
            place=self.block.place(row),
            hint="SET GLOBAL binlog_transaction_compression=OFF and start the destination after this transaction.",
        )


def _missing(rest: Bytes) -> int:
    """How many bytes of the event at the start of `rest` are still to come; 0 until its header is there."""
    return int.from_bytes(rest[9:13].tobytes(), "little") - len(rest) if len(rest) >= HEADER else 0
