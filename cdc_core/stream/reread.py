"""An event group read again from the source, without the rows that were rolled back to a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.binlog.events import EventType
from cdc_core.binlog.xid import Xid, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.stream.group import Group, body_at, part, prepared_mask, rolled_back, row_mask, statements

Reread = Callable[[Group], Iterator[Block]]
_RESET = "Its binlogs were reset or replaced: check SHOW BINARY LOGS, then set the position again."


def remaining_events(group: Group, reread: Reread) -> Iterator[Block]:
    """Reads the group once, or twice when it rolls back: first for the savepoints, then for the events."""
    gone = rolled_back(_statements(reread(group)), str(group)) if group.rolls_back else []
    first = 0
    for block in reread(group):
        keep, rows = np.ones(len(block.index), np.bool_), row_mask(block.index)
        for low, high in gone:
            within = slice(max(low - first, 0), max(high - first, 0))
            keep[within] &= ~rows[within]
            keep[within.stop : max(high - first + 1, 0)] = False  # the ROLLBACK TO itself
        yield part(block, 0, len(keep), keep)
        first += len(keep)


def remaining_rows(group: Group, xid: Xid, reread: Reread) -> Iterator[Block]:
    """The rows of a prepared group, and how they begin. Raises DecodeError when another group lies in its place."""
    last = None
    for block in remaining_events(group, reread):
        last = block
        yield part(block, 0, len(block.index), prepared_mask(block))
    if last is None or not _ends_with_prepare(last, xid):
        raise DecodeError(f"XA transaction {xid} is no longer where it was", place=str(group), hint=_RESET)


def _ends_with_prepare(block: Block, xid: Xid) -> bool:
    row = len(block.index) - 1
    is_prepare = row >= 0 and block.index["type"][row] == EventType.XA_PREPARE
    return bool(is_prepare) and prepared_in(body_at(block, row), block.place(row))[0] == xid


def _statements(blocks: Iterator[Block]) -> Iterator[tuple[int, str]]:
    """The QUERY events of several blocks, numbered as events of all of them."""
    first = 0
    for block in blocks:
        for row, text in statements(block, 0, len(block.index)):
            yield first + row, text
        first += len(block.index)
