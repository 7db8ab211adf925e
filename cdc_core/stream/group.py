"""Event groups, as MySQL calls them: the events that a server writes for one transaction; and work on parts of blocks.

A group's place in the binlog identifies it, so it can be read again, in the same blocks or in others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import INDEX, Block
from cdc_core.binlog.events import HEADER, OPERATION, EventType
from cdc_core.binlog.statements import Meaning, meaning
from cdc_core.errors import DecodeError, SluiceError
from cdc_core.stream.query import query_text

Mask = npt.NDArray[np.bool_]
_SAVEPOINT = re.compile(
    r"(?:(SAVEPOINT)|ROLLBACK\s+(?:WORK\s+)?TO(?:\s+SAVEPOINT)?)\s+(`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|\S+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Group:
    """From offset `start` to `end` of a journal. `rolls_back`: it contains a ROLLBACK TO a savepoint. `rows` are its
    rows events, None when they must be read again."""

    journal_name: str
    start: int
    end: int
    rolls_back: bool = False
    rows: Block | None = None

    def __str__(self) -> str:
        return f"{self.journal_name}:{self.start}"


def row_mask(index: npt.NDArray[np.void]) -> Mask:
    """True for rows events and TABLE_MAPs."""
    found: Mask = (OPERATION[index["type"]] > 0) | (index["type"] == EventType.TABLE_MAP)
    return found


def prepared_mask(block: Block) -> Mask:
    """True for what an XA COMMIT brings of a prepared group: rows, the texts of their statements, and XA START."""
    texts = np.isin(block.index["type"], (EventType.ROWS_QUERY, EventType.MARIA_ANNOTATE_ROWS))
    found: Mask = row_mask(block.index) | texts
    for row, text in statements(block, 0, len(block.index)):
        found[row] = meaning(text) is Meaning.BEGIN
    return found


def body_at(block: Block, row: int) -> bytes:
    """The event at an index row, without its header."""
    offset, length = int(block.index["offset"][row]), int(block.index["length"][row])
    return block.data[offset + HEADER : offset + length].tobytes()


def statement_at(block: Block, row: int) -> str:
    """The text of the QUERY event at an index row; empty when the event is too short."""
    offset, length = int(block.index["offset"][row]), int(block.index["length"][row])
    at, size = query_text(block.data, offset, length)
    return block.data[at : at + max(size, 0)].tobytes().decode(errors="replace")


def statements(block: Block, low: int, high: int) -> Iterator[tuple[int, str]]:
    """Row and text of each QUERY event among the index rows [low, high)."""
    for row in (low + np.flatnonzero(block.index["type"][low:high] == EventType.QUERY)).tolist():
        yield row, statement_at(block, row)


def rolled_back(texts: Iterable[tuple[int, str]], place: str) -> list[tuple[int, int]]:
    """The (SAVEPOINT, ROLLBACK TO) pairs among a group's numbered statements: what lies between them is rolled back.

    Raises DecodeError at `place` for a ROLLBACK TO a savepoint that the group does not set.
    """
    savepoints: dict[str, int] = {}
    found = []
    for number, text in texts:
        match = _SAVEPOINT.match(text)
        if match is None:
            continue
        name = _comparable(match[2])
        if match[1]:
            savepoints[name] = number
        elif name in savepoints:
            found.append((savepoints[name], number))
        else:
            raise DecodeError(
                f"{text[:80]!r} goes back to a savepoint that its transaction does not set",
                place=place,
                hint="Start this destination after it, then compare with sluice verify.",
            )
    return found


def _comparable(name: str) -> str:
    """A savepoint's name as servers compare names: without quotes, case and accents."""
    if name[0] in '`"':
        name = name[1:-1].replace(name[0] * 2, name[0])
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def part(block: Block, low: int, high: int, keep: Mask | None = None) -> Block:
    """The index rows [low, high) of a block, only those in `keep` if given. Shares the bytes, without those outside."""
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
    """Adjacent blocks as one."""
    if len(pieces) == 1:
        return pieces[0]
    index = np.empty(sum(len(piece.index) for piece in pieces), INDEX)
    at = offset = 0
    for piece in pieces:  # much faster than np.concatenate, which compares the fields of the records each time
        one = index[at : at + len(piece.index)]
        one[:] = piece.index
        one["offset"] += offset
        at, offset = at + len(one), offset + len(piece.data)
    return Block(pieces[0].journal_name, pieces[0].start, np.concatenate([piece.data for piece in pieces]), index)


def coalesce(pieces: Iterable[Block], limit: int) -> Iterator[Block]:
    """Adjacent blocks joined until they have `limit` bytes; without empty ones. An error of `pieces` comes after the
    blocks before it."""
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
