"""A group read again: its events, but for rows that were rolled back to a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cdc_core.binlog.events import EventType
from cdc_core.binlog.group import Group, body_of, is_rows, part, texts, undone
from cdc_core.binlog.xid import Xid, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.source.block import Block

Again = Callable[[Group], Iterator[Block]]
_OTHER = "Its binlogs were reset or replaced: check SHOW BINARY LOGS, then set the position anew."


def remains(group: Group, again: Again) -> Iterator[Block]:
    """Reads twice where something was undone: first what."""
    gone = undone(_statements(again(group)), str(group)) if group.undone else []
    first = 0
    for block in again(group):
        keep, rows = np.ones(len(block.index), np.bool_), is_rows(block.index)
        for low, high in gone:
            within = slice(max(low - first, 0), max(high - first, 0))
            keep[within] &= ~rows[within]
            keep[within.stop : max(high - first + 1, 0)] = False  # the ROLLBACK TO itself
        yield part(block, 0, len(keep), keep)
        first += len(keep)


def rows_alone(group: Group, name: Xid, again: Again) -> Iterator[Block]:
    """Of a prepared group. Raises DecodeError where another one lies in its place."""
    last = None
    for block in remains(group, again):
        last = block
        yield part(block, 0, len(block.index), is_rows(block.index))
    if last is None or not _prepares(last, name):
        raise DecodeError(f"XA transaction {name} is no longer where it was", place=str(group), hint=_OTHER)


def _prepares(block: Block, name: Xid) -> bool:
    row = len(block.index) - 1
    is_prepare = row >= 0 and block.index["type"][row] == EventType.XA_PREPARE
    return bool(is_prepare) and prepared_in(body_of(block, row), "")[0] == name


def _statements(blocks: Iterator[Block]) -> Iterator[tuple[int, str]]:
    first = 0
    for block in blocks:
        for row, text in texts(block, 0, len(block.index)):
            yield first + row, text
        first += len(block.index)
