"""Where the first transaction begins that is not in a GTID set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from cdc_core.binlog.block import Block, BlockSlice
from cdc_core.binlog.gtid_events import add_gtids
from cdc_core.errors import PositionError
from cdc_core.gtid import Gtids, parse_gtids
from cdc_core.position import JOURNAL_START, EntryPosition
from cdc_core.source.connection import Connection, version_of
from cdc_core.source.journal_range import read_range
from cdc_core.source.journals import binary_logs, current_end
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.gtid_lookup import first_journal


def find_by_gtid(
    conn: Connection, settings: SourceSettings, text: str, stopped: Callable[[], bool] = lambda: False
) -> EntryPosition:
    """The position with the set as its `gtid`; the current end when the set lacks nothing.

    Raises PositionError when the text is not a set, the server never executed a part of it, or transactions that it
    lacks were purged.
    """
    gtids = parse_gtids(text, version_of(conn).flavor)
    if not gtids:
        raise PositionError("an empty GTID set", place=repr(text), hint="Ask for the earliest position instead.")
    end = current_end(conn)
    begin = first_journal(conn, settings, gtids)
    names = [log.name for log in binary_logs(conn)]
    for name in names[names.index(begin.journal_name) : names.index(end.journal_name) + 1]:
        at = _first_lacking(settings, name, gtids, end, stopped)
        if at is not None:
            return EntryPosition(name, at, gtid=gtids)
    return replace(end, gtid=gtids)


def _first_lacking(
    settings: SourceSettings, name: str, gtids: Gtids, end: EntryPosition, stopped: Callable[[], bool]
) -> int | None:
    """The offset of the first transaction in a journal that is not in the set; None when there is none up to `end`."""
    upto = end.position if name == end.journal_name else None
    if upto == JOURNAL_START:
        return None
    with closing(read_range(settings, EntryPosition(name, JOURNAL_START), upto, stopped)) as blocks:
        for block in blocks:
            row = lacking(gtids, block)
            if row is not None:
                return block.start_of(row)
    return None


def lacking(gtids: Gtids, block: Block) -> int | None:
    """The index row of the first transaction that the set does not contain."""
    low, high = 0, len(block.index)
    if not _beyond(gtids, block, high):
        return None
    while high - low > 1:  # rows below `low` begin none, rows below `high` begin one
        middle = (low + high) // 2
        if _beyond(gtids, block, middle):
            high = middle
        else:
            low = middle
    return low


def _beyond(gtids: Gtids, block: Block, high: int) -> bool:
    """Whether the rows below `high` begin a transaction that the set does not contain."""
    return bool(add_gtids(gtids, BlockSlice(block, 0, high)) - gtids)  # type: ignore[operator]
