"""The rows of a prepared group, placed before the XA COMMIT that makes them count.

Their positions are the bytes between the event before the XA COMMIT and its own end: there is no other room in the
journal where nothing lies already. Each place holds a STEP of the group, or more where the group is larger than all
places together; a place never spans blocks, since a range may end between blocks. The same group gives the same places,
however it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from cdc_core.binlog.group import Group, join, part
from cdc_core.source.block import Block

STEP = 1 << 18  # bytes of the journal


def splice(pieces: Iterable[Block], group: Group, journal_name: str, before: int, after: int) -> Iterator[Block]:
    """The same events, ending within (before, after): two offsets in `journal_name`. A block holds whole places."""
    total = group.end - group.start
    room = after - 1 - before
    step = max(STEP, -(-total // room))
    pending: list[Block] = []
    last = -1
    for piece in pieces:
        number = (piece.index["end"] - group.start - 1) // step
        bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
        index = piece.index.copy()
        index["end"] = before + 1 + number
        moved = Block(journal_name, before, piece.data, index)
        for low, high in pairwise(bounds):
            if low < high and int(number[low]) != last and pending:
                yield join(pending)
                pending = []
            if low < high:
                last = int(number[low])
                pending.append(part(moved, low, high))
    if pending:
        yield join(pending)
