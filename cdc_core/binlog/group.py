"""A group: the events that a server wrote for one transaction, and what is done with a stretch of them.

Its place is where it lies in the source's binlog; so it can be read again, in the same pieces or in others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import HEADER, OPERATION, EventType
from cdc_core.binlog.scan import query_text
from cdc_core.errors import DecodeError, SluiceError
from cdc_core.source.block import INDEX, Block

Keep = npt.NDArray[np.bool_]
_SAVEPOINT = re.compile(
    r"(?:(SAVEPOINT)|ROLLBACK\s+(?:WORK\s+)?TO(?:\s+SAVEPOINT)?)\s+(`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|\S+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Group:
    """`journal_name` from offset `start` to `end`. `undone`: something in it was rolled back to a savepoint.
    `rows` are its rows events where they are still at hand."""

    journal_name: str
    start: int
    end: int
    undone: bool = False
    rows: Block | None = None

    def __str__(self) -> str:
        return f"{self.journal_name}:{self.start}"


def is_rows(index: npt.NDArray[np.void]) -> Keep:
    """The events that are rows, or describe them."""
    found: Keep = (OPERATION[index["type"]] > 0) | (index["type"] == EventType.TABLE_MAP)
    return found


def texts(block: Block, low: int, high: int) -> Iterator[tuple[int, str]]:
    """Row and statement of each QUERY event in [low, high)."""
    for row in (low + np.flatnonzero(block.index["type"][low:high] == EventType.QUERY)).tolist():
        yield row, text_of(block, row)


def text_of(block: Block, row: int) -> str:
    """The statement of a QUERY event, empty when it is too short for one."""
    offset, length = int(block.index["offset"][row]), int(block.index["length"][row])
    at, size = query_text(block.data, offset, length)
    return block.data[at : at + max(size, 0)].tobytes().decode(errors="replace")


def undone(statements: Iterable[tuple[int, str]], place: str) -> list[tuple[int, int]]:
    """What ROLLBACK TO takes back, as (number of the SAVEPOINT, number of the ROLLBACK TO) among a group's events."""
    savepoints: dict[str, int] = {}
    found = []
    for number, text in statements:
        match = _SAVEPOINT.match(text)
        if match is None:
            continue
        name = _compared(match[2])
        if match[1]:
            savepoints[name] = number
        elif name in savepoints:
            found.append((savepoints[name], number))
        else:
            raise DecodeError(
                f"{text[:80]!r} goes back to a savepoint that its transaction does not set",
                place=place,
                hint="Start this destination behind it, then compare with sluice verify.",
            )
    return found


def _compared(name: str) -> str:
    """A savepoint's name as servers compare it: without regard to case and accents."""
    if name[0] in '`"':
        name = name[1:-1].replace(name[0] * 2, name[0])
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def part(block: Block, low: int, high: int, keep: Keep | None = None) -> Block:
    """Index rows [low, high) of a block, of these the kept ones; bytes outside are let go of."""
    start = int(block.index["end"][low - 1]) if low else block.start
    index = block.index[low:high]
    if not len(index) or (high - low == len(block.index) and keep is None):
        return block if len(index) else Block(block.journal_name, start, block.data[:0], index)
    first = int(index["offset"][0])
    data = block.data[first : int(index["offset"][-1]) + int(index["length"][-1])]
    index = index.copy() if keep is None else index[keep[low:high]]
    index["offset"] -= first
    return Block(block.journal_name, start, data, index)


def join(pieces: list[Block]) -> Block:
    """Neighbours as one block."""
    if len(pieces) == 1:
        return pieces[0]
    sizes = [len(piece.data) for piece in pieces]
    index = np.concatenate([piece.index for piece in pieces])
    assert index.dtype == INDEX
    index["offset"] += np.repeat(np.cumsum([0, *sizes[:-1]]), [len(piece.index) for piece in pieces]).astype(np.uint32)
    return Block(pieces[0].journal_name, pieces[0].start, np.concatenate([piece.data for piece in pieces]), index)


def merged(pieces: Iterable[Block], limit: int) -> Iterator[Block]:
    """Neighbours made into blocks of at least `limit` bytes, but for the last; without empty ones. What was had when
    `pieces` raises comes first."""
    waiting: list[Block] = []
    size = 0
    try:
        for piece in pieces:
            if len(piece.index):
                waiting.append(piece)
                size += len(piece.data)
            if size >= limit:
                yield join(waiting)
                waiting, size = [], 0
    except SluiceError:
        if waiting:
            yield join(waiting)
        raise
    if waiting:
        yield join(waiting)


def body_of(block: Block, row: int) -> bytes:
    """An event without its header."""
    offset, length = int(block.index["offset"][row]), int(block.index["length"][row])
    return block.data[offset + HEADER : offset + length].tobytes()
