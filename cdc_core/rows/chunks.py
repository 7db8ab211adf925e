"""Chunks: the rows events of one table, brought together from many blocks, large or tiny.

They are copies, so that a chunk stays valid when the ring moves on. A chunk is bounded, or holds one large event alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import INDEX, BlockSlice
from cdc_core.binlog.events import DELETE, INSERT, UPDATE_BEFORE
from cdc_core.compiled.kernel import Bytes, Ints, Longs
from cdc_core.position import journal_number, split_version
from cdc_core.rows import chunk_kernels as kernels
from cdc_core.rows.chunk_kernels import ChunkArrays, TableEvents, Wanted

# A chunk stays in the processor's cache from copying to decoding. Its arrays are smaller than `memory.LARGE`: fresh
# pages for each chunk would cost a third of all that is done with it.
CHUNK_BYTES = 15 << 16  # just under 1 MiB
_CHUNK_EVENTS = 16384


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows events side by side. `index` points into `data`. Each event has its journal's number in `journals`, and in
    `ordinals` the number of its first image within the whole range."""

    data: Bytes
    index: npt.NDArray[np.void]
    journals: Ints
    ordinals: Longs
    slices: Sequence[BlockSlice] = field(repr=False)  # where the events come from

    def place(self, event: int) -> str:
        """Where an event starts, for errors: journal:offset. Looks through the range, so for errors alone."""
        journal, end = int(self.journals[event]), int(self.index["end"][event])
        for block in (piece.block for piece in self.slices):
            if block.start < end <= block.end and journal_number(block.journal_name) == journal:
                return block.place(int(np.searchsorted(block.index["end"], end)))
        return ""


def gather(
    slices: Sequence[BlockSlice],
    schemas: Collection[int],
    max_bytes: int = CHUNK_BYTES,
    after: int | None = None,
    wanted: Wanted | None = None,
    reuse: bool = False,
) -> Iterator[Chunk]:
    """Chunks of the rows events with one of these schema ids, in order, without those at or below version `after`.

    Ordinals count the images of all events that are left, also of those that are not `wanted`. With `reuse` a chunk is
    valid until the next one is asked for: fresh memory costs more than what is written to it."""
    filler = _Filler(slices, _mask(schemas), max_bytes, wanted or Wanted(), reuse)
    for piece in slices:
        table = _table(filler.mask, piece, after)
        low = piece.low
        while low < piece.high:
            low = filler.copy(piece, low, table)
            if filler.state[kernels.ORDINAL] >= filler.wanted.high:
                break
            if low < piece.high:
                yield filler.take()
    if filler.state[kernels.EVENTS]:
        yield filler.take()


def images_by_schema(slices: Sequence[BlockSlice], schemas: int) -> Longs:
    """How many images the slices hold of each of so many schema ids."""
    images = np.zeros(schemas, np.int64)
    for piece in slices:
        kernels.count_images(piece.block.index, piece.low, piece.high, images)
    return images


def count_changes(
    slices: Sequence[BlockSlice], schemas: Collection[int], after: int | None = None
) -> tuple[int, int, int]:
    """How many rows of these schema ids were inserted, updated and deleted, without those at or below `after`."""
    counts, mask = np.zeros(DELETE + 1, np.int64), _mask(schemas)
    for piece in slices:
        kernels.count_rows(piece.block.index, piece.low, piece.high, _table(mask, piece, after), counts)
    return int(counts[INSERT]), int(counts[UPDATE_BEFORE]), int(counts[DELETE])


def _mask(schemas: Collection[int]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(max(schemas, default=0) + 1, np.bool_)
    mask[list(schemas)] = True
    return mask


def _table(mask: npt.NDArray[np.bool_], piece: BlockSlice, after: int | None) -> TableEvents:
    """The events that end at or below version `after` are left out."""
    journal, floor = journal_number(piece.block.journal_name), -1
    if after is not None:
        number, offset = split_version(after)
        floor = offset if journal == number else (-1 if journal > number else 1 << 62)
    return TableEvents(mask, floor, journal)


class _Filler:
    """The chunk that is being filled."""

    def __init__(
        self,
        slices: Sequence[BlockSlice],
        mask: npt.NDArray[np.bool_],
        max_bytes: int,
        wanted: Wanted,
        reuse: bool,
    ) -> None:
        self.slices, self.mask, self.wanted = slices, mask, wanted
        self.max_bytes, self.reuse = max_bytes, reuse
        self.state = np.zeros(5, np.int64)
        self._renew()

    def _renew(self) -> None:
        self._data = np.empty(self.max_bytes, np.uint8)
        self._index = np.empty(_CHUNK_EVENTS, INDEX)
        self._journals = np.empty(_CHUNK_EVENTS, np.int32)
        self._ordinals = np.empty(_CHUNK_EVENTS, np.int64)

    def copy(self, piece: BlockSlice, low: int, table: TableEvents) -> int:
        """Copies from index row `low` on. Returns the row where the chunk was full."""
        at = self._copy(piece, low, table)
        if at < piece.high and not self.state[kernels.EVENTS] and self.state[kernels.ORDINAL] < self.wanted.high:
            self._data = np.empty(int(piece.block.index["length"][at]), np.uint8)  # one event larger than a chunk
            at = self._copy(piece, at, table)
        return at

    def _copy(self, piece: BlockSlice, low: int, table: TableEvents) -> int:
        target = ChunkArrays(self._data, self._index, self._journals, self._ordinals)
        block = piece.block
        return kernels.copy(block.data, block.index, low, piece.high, table, self.wanted, target, self.state)

    def take(self) -> Chunk:
        events, size = int(self.state[kernels.EVENTS]), int(self.state[kernels.BYTES_USED])
        journals, ordinals = self._journals[:events], self._ordinals[:events]
        chunk = Chunk(self._data[:size], self._index[:events], journals, ordinals, self.slices)
        self.state[[kernels.EVENTS, kernels.BYTES_USED, kernels.IMAGES]] = 0
        if not self.reuse or len(self._data) != self.max_bytes:
            self._renew()
        return chunk
