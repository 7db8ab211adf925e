"""TRANSACTION_PAYLOAD events opened: blocks in which the events inside stand as if they had been sent one by one.

Promises: the same events in the same order; no piece much larger than PIECE, but for one large event alone; a payload
that is damaged, or lies about its size, is a DecodeError with its place, before more than that is held.
Does not promise to know what the events mean.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from cdc_core.binlog.events import HEADER, EventType
from cdc_core.binlog.inner import FIELDS, STEP, assemble, cut, read_fields
from cdc_core.errors import DecodeError
from cdc_core.source.block import INDEX, Block

PIECE = 4 * STEP
_ZSTD, _NONE = 0, 255
_WINDOW = 1 << 27  # the largest of zstd's levels
_LIES = "its size is not the one that it tells"
_NO_ROWS = np.zeros(0, INDEX)

Bytes = npt.NDArray[np.uint8]


def expand(block: Block) -> Iterator[Block]:
    """The block itself when it holds no payload."""
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
    """One block's payloads. `fields` has one row a payload, `sizes` one an event: its bytes once inflated."""

    def __init__(self, block: Block, rows: npt.NDArray[np.int64]) -> None:
        self.block = block
        self.start = block.start  # of the next piece
        self.fields = np.zeros(len(rows), FIELDS)
        self.fields["row"] = rows
        bad = read_fields(block.data, block.index, self.fields)
        if bad >= 0:
            raise self.damaged(int(rows[bad]), "its header does not add up")
        self.sizes = block.index["length"].astype(np.int64)
        too_much = np.flatnonzero(self.fields["size"] // STEP + 1 >= self.sizes[rows])
        if len(too_much):
            raise self.damaged(int(rows[too_much[0]]), "nothing of its length holds so many bytes")
        self.sizes[rows] = self.fields["size"]
        self._zstd = zstandard.ZstdDecompressor(max_window_size=_WINDOW)

    def cuts(self) -> Iterator[int]:
        """Where pieces end, as index rows: a large payload alone, all else as far as PIECE goes."""
        large = self.fields["row"][self.fields["size"] > STEP].tolist()
        bounds = sorted({0, *large, *(row + 1 for row in large), len(self.block.index)})
        sums = np.cumsum(self.sizes)
        for low, high in pairwise(bounds):
            while low < high:
                full = int(np.searchsorted(sums, (sums[low - 1] if low else 0) + PIECE, side="right"))
                low = min(max(full, low + 1), high)
                yield low

    def batch(self, low: int, high: int, payloads: list[tuple[int, ...]]) -> Block:
        """Index rows [low, high) as one block, with the fields of the payloads among them."""
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
        """A small payload at once."""
        found: bytes | memoryview = self.block.data.data[at : at + length]
        if kind not in (_ZSTD, _NONE):
            raise self._unknown(row, kind)
        try:
            if kind == _ZSTD:
                if zstandard.frame_content_size(found) not in (-1, size):  # it would be believed
                    raise self.damaged(row, _LIES)
                found = self._zstd.decompress(found, max_output_size=size, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise self.damaged(row, str(error)) from error
        if len(found) != size:
            raise self.damaged(row, _LIES)
        return found

    def stream(self, row: int, at: int, length: int, kind: int, total: int) -> Iterator[Block]:
        """A large payload, piece by piece; pieces end with a STEP."""
        event = self.block.index[row]
        end, outer = int(event["end"]), int(event["length"])
        source, read, rest = self._open(row, at, length, kind), 0, np.zeros(0, np.uint8)
        while read < total:
            upto = min(total, -(-max(read + PIECE, read + _missing(rest)) // STEP) * STEP)
            data = np.empty(len(rest) + upto - read, np.uint8)
            data[: len(rest)] = rest
            self._fill(source, data[len(rest) :], row)
            first, read = read - len(rest), upto
            place = 0, len(data), first, total, end, outer
            count, stop = cut(data, *place, _NO_ROWS, 0)
            if count < 0:
                raise self.damaged(row, "an event inside does not add up")
            if count:
                index = np.empty(count, INDEX)
                cut(data, *place, index, 0)
                yield self._piece(data[:stop], index)
            rest = data[stop:]
        if len(rest) or self._read(source, np.empty(1, np.uint8), row):
            raise self.damaged(row, _LIES)

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
                raise self.damaged(row, _LIES)
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

    def _place(self, row: int) -> str:
        return f"{self.block.journal_name}:{int(self.block.index['end'][row - 1]) if row else self.block.start}"

    def damaged(self, row: int, why: str) -> DecodeError:
        return DecodeError(
            f"a compressed transaction is damaged: {why}",
            place=self._place(row),
            hint="Check the source's binlog with mysqlbinlog --verify-binlog-checksum; reconnect if it is sound.",
        )

    def _unknown(self, row: int, kind: int) -> DecodeError:
        return DecodeError(
            f"a transaction is compressed in a way that is not known: {kind}",
            place=self._place(row),
            hint="SET GLOBAL binlog_transaction_compression=OFF and start this destination behind it.",
        )


def _missing(rest: Bytes) -> int:
    """How many bytes of the event that `rest` begins with are still to come; 0 when it is not told yet."""
    return int.from_bytes(rest[9:13].tobytes(), "little") - len(rest) if len(rest) >= HEADER else 0
