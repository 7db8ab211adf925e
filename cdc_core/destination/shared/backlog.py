"""The last blocks of a shared connection, numbered, and the places of its readers among them. Pure.

Promises: from the place of an event on, `take` gives each later event once and in order, or raises Overtaken; never
with a gap. `find` gives the place of an event only if it is the same event of the same transaction, by its bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.binlog.events import GTIDS, EventType
from cdc_core.source.following import Overtaken
from cdc_core.stream.group import join, part

_COMPARED = 8  # events, at most
RUN = 16  # blocks that become one, for all who want none of them
_SMALL = 1 << 16  # bytes that they have at most
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
    """Holds at most `most` bytes, or one block. `received` are all bytes that came. Of small blocks, each run of `run`
    is joined once, where somebody takes all of it."""

    def __init__(self, most: int, run: int = RUN) -> None:
        self._most, self._run = most, run
        self._pieces: deque[Piece] = deque()
        self._first = 0  # the number of the oldest block
        self._runs: dict[int, Piece | None] = {}  # by the number of the first block; None: they cannot be joined
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
        joined = self._runs.pop(self._first, None)
        self.nbytes -= joined.block.nbytes if joined else 0
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

    def take(self, place: Place, most: int, reader: int) -> tuple[list[Piece], Place]:
        """The blocks from a place on, of at most so many bytes or one, and the place after them. Several that the
        reader does not want at once may come as one."""
        if place.number < self._first:
            raise Overtaken
        found: list[Piece] = []
        size, number, row = 0, place.number, place.row
        while number < self.end.number:
            joined = self._joined(number, reader) if not row else None
            piece = joined or self._pieces[number - self._first]
            if found and size + piece.block.nbytes > most:
                break
            found.append(Piece(part(piece.block, row, len(piece.block.index)), piece.wanted) if row else piece)
            size += piece.block.nbytes
            number, row = number + (self._run if joined else 1), 0
        return found, Place(number, row)

    def _joined(self, number: int, reader: int) -> Piece | None:
        """The run that begins with a block, if it is complete and the reader wants none of it."""
        if number % self._run or number + self._run > self.end.number:
            return None
        if number not in self._runs:
            pieces = list(islice(self._pieces, number - self._first, number - self._first + self._run))
            self._runs[number] = joined = _join_small(pieces)
            self.nbytes += joined.block.nbytes if joined else 0
        run = self._runs[number]
        return None if run is None or reader in run.wanted else run


def _join_small(pieces: list[Piece]) -> Piece | None:
    blocks = [piece.block for piece in pieces]
    if sum(block.nbytes for block in blocks) > _SMALL or len({block.journal_name for block in blocks}) > 1:
        return None
    whole = join(blocks)
    whole.data.flags.writeable = False
    return Piece(whole, frozenset[int]().union(*(piece.wanted for piece in pieces)))


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
