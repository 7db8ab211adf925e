"""The stage that leaves out what the ring has already: after a reconnect a transaction's beginning comes once more.

Nothing is copied: the rest of a block shares its bytes, and `offset` keeps pointing into them. The annotator must see
whole blocks, since table maps may lie in the part that is left out: this stage comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from cdc_core.binlog.block import ENDS, Block
from cdc_core.errors import BEGIN_ANEW, PositionError
from cdc_core.position import EntryPosition, journal_base, journal_number


class Trimmer:
    """`last_position` returns the end of the last event in the ring, None before the first."""

    def __init__(self, last_position: Callable[[], EntryPosition | None]) -> None:
        self._last_position = last_position

    def __repr__(self) -> str:
        return f"<Trimmer after={self._last_position()}>"

    def reset(self) -> None:
        pass

    def push(self, block: Block) -> Iterable[Block]:
        """Raises PositionError when a transaction ends in a journal before the one that was read, or in one of another
        base name: it cannot be compared with what the ring has."""
        last = self._last_position()
        if last is None:
            return (block,)
        ahead = journal_number(block.journal_name) - journal_number(last.journal_name)
        if journal_base(block.journal_name) != journal_base(last.journal_name):
            raise _replaced(block.journal_name, last)
        if ahead > 0:
            return (block,)
        if ahead < 0 and np.isin(block.index["kind"], ENDS).any():  # a transaction that never ended may come again
            raise _replaced(block.journal_name, last)
        rest = trim(block, last.position) if ahead == 0 else None
        return () if rest is None else (rest,)


def trim(block: Block, after: int) -> Block | None:
    """The events of `block` that end beyond `after`, an offset in its journal; None when there are none.

    Raises PositionError when `after` lies inside an event: then the journal's bytes are others than before. In a dump
    by GTID `after` may lie among transactions that the server left out, also before the first event of a block that
    starts earlier.
    """
    if after <= block.start:
        return block
    low = int(np.searchsorted(block.index["end"], after, side="right"))
    if low == len(block.index):
        return None
    before = int(block.index["end"][low - 1] if low else block.start)
    if before != after and _start(block, low) < after:
        raise PositionError(
            "the journal has other events than those that were read before: its binlogs were reset or replaced",
            place=f"{block.journal_name}:{after}",
            hint=BEGIN_ANEW,
        )
    return replace(block, start=after, index=block.index[low:])


def _replaced(journal_name: str, last: EntryPosition) -> PositionError:
    return PositionError(
        f"transactions come from the journal {journal_name}, and {last} was read already: the binlogs were reset",
        place=journal_name,
        hint=BEGIN_ANEW,
    )


def _start(block: Block, row: int) -> int:
    """Where an event starts, by the length in its header, checksum included."""
    entry = block.index[row]
    at = int(entry["offset"]) + 9
    length = int.from_bytes(block.data[at : at + 4].tobytes(), "little")
    return int(entry["end"]) - max(length, int(entry["length"]))
