"""Gives the rows of a prepared group positions before the XA COMMIT that commits them.

Their positions lie between the event before the XA COMMIT and its own end: no other offsets of the journal are free.
Each offset stands for a STEP of the group, or for more when the group is larger than all offsets together. The events
of one offset are in one block, since a range may end between blocks. The same group gets the same positions, however it
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.stream.group import Group, join, part

STEP = 1 << 18  # bytes of the journal


def splice(pieces: Iterable[Block], group: Group, journal_name: str, before: int, after: int) -> Iterator[Block]:
    """The same events with ends in (before, after), two offsets in `journal_name`."""
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
