"""The last blocks of a shared connection, numbered, and the places of its readers among them. Pure.

Promises: from the place of an event on, `take` gives each later event once and in order, or raises Overtaken; never
with a gap. `find` gives the place of an event only if it is the same event of the same transaction, by its bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.binlog.events import GTIDS, EventType
from cdc_core.source.following import Overtaken
from cdc_core.stream.group import join, part

_COMPARED = 8  # events, at most
_OWN = GTIDS.astype(bool)  # the types that say which transaction it is
_OWN[EventType.XID] = True


class Place(NamedTuple):
    """Before the event `row` of the block `number`."""

    number: int
    row: int = 0


class Piece(NamedTuple):
    """A block, or its end, and the numbers of the readers that want it at once."""

    block: Block
    wanted: Set[int]


class Backlog:
    """Holds at most `most` bytes, or one block. `received` are all bytes that came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: deque[Piece] = deque()
        self._first = 0  # the number of the oldest block
        self.nbytes = self.received = 0

    def __repr__(self) -> str:
        return f"<Backlog {self._first}..{self.end.number} bytes={self.nbytes}>"

    @property
    def end(self) -> Place:
        return Place(self._first + len(self._pieces))

    def put(self, block: Block, wanted: Set[int] = frozenset()) -> None:
        """The next block. The oldest ones leave if there is no room."""
        self._pieces.append(Piece(block, wanted))
        self.nbytes += block.nbytes
        self.received += block.nbytes
        while self.nbytes > self._most and len(self._pieces) > 1:
            self._drop()

    def free(self, before: Place, keep: int) -> None:
        """Drops what lies before a place, but for the last `keep` bytes: others find their place there."""
        while self._first < before.number and self.nbytes - self._pieces[0].block.nbytes > keep:
            self._drop()

    def _drop(self) -> None:
        self.nbytes -= self._pieces.popleft().block.nbytes
        self._first += 1

    def find(self, last: Block) -> Place | None:
        """The place after the last event of a block of another connection; None where that event is not held."""
        end = last.end
        for number in range(len(self._pieces) - 1, -1, -1):
            block = self._pieces[number].block
            if block.journal_name != last.journal_name or not block.start < end <= block.end:
                continue
            row = int(np.searchsorted(block.index["end"], end))
            if int(block.index["end"][row]) != end or not _same(block, row, last):
                return None
            whole = row + 1 == len(block.index)
            return Place(self._first + number + 1) if whole else Place(self._first + number, row + 1)
        return None

    def take(self, place: Place, most: int) -> tuple[list[Piece], Place]:
        """The blocks from a place on, of at most so many bytes or one, and the place after them."""
        if place.number < self._first:
            raise Overtaken
        found: list[Piece] = []
        size = 0
        for number in range(place.number - self._first, len(self._pieces)):
            piece = self._pieces[number]
            block = piece.block
            if found and size + block.nbytes > most:
                break
            found.append(
                piece if found or not place.row else Piece(part(block, place.row, len(block.index)), piece.wanted)
            )
            size += block.nbytes
        return found, Place(place.number + len(found)) if found else place


def _same(block: Block, row: int, last: Block) -> bool:
    """Whether the events up to a row are the last ones of another block. One of them must be of one transaction alone:
    a BEGIN is like any other."""
    count = min(row + 1, len(last.index), _COMPARED)
    if not _OWN[last.index["type"][-count:]].any():
        return False
    end = len(last.index) - 1
    return all(block.digest(row - back) == last.digest(end - back) for back in range(count))


def owned(pieces: Iterable[Piece], reader: int, most: int) -> Iterator[Block]:
    """The events in blocks of one journal each with at most `most` bytes, if more than one becomes one: with an index
    that nobody else has, since the stages of a stream write into it. What a reader wants stays apart from the rest,
    since the ring keeps the whole of a block that has captured rows."""
    waiting: list[Block] = []
    size, wanted = 0, False
    for block, readers in pieces:
        nbytes, wants = block.nbytes, reader in readers
        another = (
            wants is not wanted or size + nbytes > most or (waiting and block.journal_name != waiting[0].journal_name)
        )
        if waiting and another:
            yield _one(waiting)
            waiting, size = [], 0
        waiting.append(block)
        size, wanted = size + nbytes, wants
    if waiting:
        yield _one(waiting)


def _one(blocks: list[Block]) -> Block:
    return join(blocks) if len(blocks) > 1 else replace(blocks[0], index=blocks[0].index.copy())
