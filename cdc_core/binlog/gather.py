"""Brings the rows events of one table together from many blocks, large or tiny, into contiguous chunks.

Copies, so that a chunk stays valid when the ring moves on; a chunk is bounded, or holds one large event alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import from_dtype, njit, types

from cdc_core.binlog.events import DELETE, INSERT, OPERATION, UPDATE_BEFORE
from cdc_core.binlog.images import BYTES, int64
from cdc_core.moving import move
from cdc_core.position import journal_number, split_version
from cdc_core.source.block import INDEX, BlockSlice, Kind

CHUNK_BYTES = 2 << 20  # stays in the processor's cache from copying to decoding
CHUNK_IMAGES = 65536
_CHUNK_EVENTS = 65536
EVERY = np.zeros(0, np.int64)  # no choice among the images: all are wanted
_ROWS = int(Kind.ROWS)

# Places in the `state` vector of `_copy`.
_EVENTS, _BYTES, _IMAGES, _ORDINAL, _NEXT = range(5)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows events side by side. `index` points into `data`; `journals` and `ordinals` (number of an event's first
    image within the whole range) go with it, one an event."""

    data: npt.NDArray[np.uint8]
    index: npt.NDArray[np.void]
    journals: npt.NDArray[np.int32]
    ordinals: npt.NDArray[np.int64]
    journal_base: str  # the journals' name without its number

    def place(self, event: int) -> str:
        """Where an event ends, for people."""
        return f"{self.journal_base}.{int(self.journals[event]):06d}:{int(self.index['end'][event])}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which images of a range: ordinals from `low` to `high` (exclusive), and of these only `kept` (sorted) if any."""

    low: int = 0
    high: int = 1 << 62
    kept: npt.NDArray[np.int64] | None = None


def gather(
    slices: Iterable[BlockSlice],
    schemas: Collection[int],
    max_bytes: int = CHUNK_BYTES,
    after: int | None = None,
    wanted: Wanted | None = None,
    reuse: bool = False,
) -> Iterator[Chunk]:
    """Chunks of the rows events with one of these schema ids, in order, without those at or below version `after`.

    Ordinals count the images of the events that are left, whether or not they are `wanted`. With `reuse` a chunk is
    valid until the next one is asked for: fresh memory costs more than what is written to it."""
    wanted = wanted or Wanted()
    filler = _Filler(max(schemas, default=0), schemas, max_bytes, wanted, reuse)
    for piece in slices:
        number = journal_number(piece.block.journal_name)
        floor = _floor(number, after)
        filler.base = piece.block.journal_name.rpartition(".")[0]
        low = piece.low
        while low < piece.high:
            low = filler.copy(piece, low, number, floor)
            if filler.state[_ORDINAL] >= wanted.high:
                break
            if low < piece.high:
                yield filler.take()
    if filler.state[_EVENTS]:
        yield filler.take()


def survey(slices: Iterable[BlockSlice], schemas: int) -> npt.NDArray[np.int64]:
    """How many images the slices hold of each of so many schema ids."""
    images = np.zeros(schemas, np.int64)
    for piece in slices:
        _survey(piece.block.index, piece.low, piece.high, images)
    return images


def count_changes(
    slices: Iterable[BlockSlice], schemas: Collection[int], after: int | None = None
) -> tuple[int, int, int]:
    """How many rows of these schema ids were inserted, updated and deleted, without those at or below `after`."""
    counts = np.zeros(DELETE + 1, np.int64)  # by operation
    mask = np.zeros(max(schemas, default=0) + 1, np.bool_)
    mask[list(schemas)] = True
    for piece in slices:
        floor = _floor(journal_number(piece.block.journal_name), after)
        _count(piece.block.index, piece.low, piece.high, mask, floor, counts)
    return int(counts[INSERT]), int(counts[UPDATE_BEFORE]), int(counts[DELETE])


def _floor(journal: int, after: int | None) -> int:
    """Events of this journal that end at or below it are left out."""
    if after is None:
        return -1
    number, offset = split_version(after)
    return offset if journal == number else (-1 if journal > number else 1 << 62)


class _Filler:
    """The chunk being filled."""

    def __init__(
        self, largest: int, schemas: Collection[int], max_bytes: int, wanted: Wanted, reuse: bool = False
    ) -> None:
        self.mask = np.zeros(largest + 1, np.bool_)
        self.mask[list(schemas)] = True
        self.wanted = wanted
        self.kept = EVERY if wanted.kept is None else wanted.kept
        self.max_bytes, self.reuse = max_bytes, reuse
        self.state = np.zeros(5, np.int64)
        self.base = ""
        self._renew()

    def _renew(self) -> None:
        self.data = np.empty(self.max_bytes, np.uint8)
        self.index = np.empty(_CHUNK_EVENTS, INDEX)
        self.journals = np.empty(_CHUNK_EVENTS, np.int32)
        self.ordinals = np.empty(_CHUNK_EVENTS, np.int64)

    def copy(self, piece: BlockSlice, low: int, journal: int, floor: int) -> int:
        """Copies from index row `low` on; returns the row where the chunk was full."""
        block, wanted = piece.block, self.wanted
        at = self._copy(piece, low, journal, floor)
        if at < piece.high and not self.state[_EVENTS] and self.state[_ORDINAL] < wanted.high:
            self.data = np.empty(int(block.index["length"][at]), np.uint8)  # one event larger than a chunk
            at = self._copy(piece, at, journal, floor)
        return at

    def _copy(self, piece: BlockSlice, low: int, journal: int, floor: int) -> int:
        block, wanted = piece.block, self.wanted
        return int(
            _copy(
                block.data, block.index, low, piece.high, self.mask, floor, journal,
                wanted.low, wanted.high, self.kept, wanted.kept is None,
                self.data, self.index, self.journals, self.ordinals, self.state,
            )
        )  # fmt: skip

    def take(self) -> Chunk:
        events, size = int(self.state[_EVENTS]), int(self.state[_BYTES])
        chunk = Chunk(self.data[:size], self.index[:events], self.journals[:events], self.ordinals[:events], self.base)
        self.state[[_EVENTS, _BYTES, _IMAGES]] = 0
        if not self.reuse or len(self.data) != self.max_bytes:
            self._renew()
        return chunk


@njit(
    types.int64(
        BYTES, types.Array(from_dtype(INDEX), 1, "C", readonly=True), types.int64, types.int64,
        types.boolean[::1], types.int64, types.int64,
        types.int64, types.int64, types.Array(types.int64, 1, "C", readonly=True), types.boolean,
        types.uint8[::1], from_dtype(INDEX)[::1], types.int32[::1], types.int64[::1], types.int64[::1],
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def _copy(
    data: Any, index: Any, low: int, high: int, mask: Any, floor: int, journal: int,
    first: int, last: int, kept: Any, every: bool,
    into: Any, into_index: Any, journals: Any, ordinals: Any, state: Any,
) -> int:  # fmt: skip
    """Copies what is wanted of index rows [low, high); returns `high`, or the row that no longer fits."""
    for i in range(low, high):
        event = index[i]
        if event.kind != _ROWS or event.end <= floor or event.schema >= mask.size or not mask[event.schema]:
            continue
        images = int64(event.rows)
        if OPERATION[event.type] == UPDATE_BEFORE:
            images *= 2
        ordinal = state[_ORDINAL]
        if ordinal >= last:
            return i
        wanted = ordinal + images > first
        if wanted and not every:
            while state[_NEXT] < kept.size and kept[state[_NEXT]] < ordinal:
                state[_NEXT] += 1
            wanted = state[_NEXT] < kept.size and kept[state[_NEXT]] < ordinal + images
        if wanted:
            count, size, length = state[_EVENTS], state[_BYTES], int64(event.length)
            if size + length > into.size or count == into_index.size:
                return i
            if count > 0 and state[_IMAGES] + images > CHUNK_IMAGES:
                return i
            offset = int64(event.offset)
            move(into, size, data, offset, length)
            into_index[count] = event
            into_index[count].offset = size
            journals[count] = journal
            ordinals[count] = ordinal
            state[_EVENTS], state[_BYTES] = count + 1, size + length
            state[_IMAGES] += images
        state[_ORDINAL] = ordinal + images
    return high


@njit(
    types.void(types.Array(from_dtype(INDEX), 1, "C", readonly=True), types.int64, types.int64, types.int64[::1]),
    nogil=True,
    cache=True,
)
def _survey(index: Any, low: int, high: int, images: Any) -> None:
    for i in range(low, high):
        event = index[i]
        if event.kind == _ROWS and event.schema < images.size:
            images[event.schema] += int64(event.rows) * (2 if OPERATION[event.type] == UPDATE_BEFORE else 1)


@njit(
    types.void(
        types.Array(from_dtype(INDEX), 1, "C", readonly=True), types.int64, types.int64, types.boolean[::1],
        types.int64, types.int64[::1],
    ),
    nogil=True,
    cache=True,
)  # fmt: skip
def _count(index: Any, low: int, high: int, mask: Any, floor: int, counts: Any) -> None:
    for i in range(low, high):
        event = index[i]
        if event.kind == _ROWS and event.end > floor and event.schema < mask.size and mask[event.schema]:
            counts[OPERATION[event.type]] += int64(event.rows)
