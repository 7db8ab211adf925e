"""The place in the binlog where the first transaction begins that a GTID set lacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.gtid_columns import advanced
from cdc_core.errors import PositionError
from cdc_core.gtid import Gtids, parse_gtids
from cdc_core.position import EntryPosition
from cdc_core.source.block import Block
from cdc_core.source.connection import Connection, version_of
from cdc_core.source.framing import JOURNAL_START
from cdc_core.source.gtid_start import begin_of
from cdc_core.source.journals import binary_logs, current_end
from cdc_core.source.settings import SourceSettings
from cdc_core.source.stretch import read_stretch

_SIZE = 9  # in an event's header


def find_by_gtid(
    conn: Connection, settings: SourceSettings, text: str, stopped: Callable[[], bool] = lambda: False
) -> EntryPosition:
    """With the set as its `gtid`; the current end where the set lacks nothing.

    Raises PositionError for a text that is no set, a set that the server does not know, and one of which a part that
    it lacks was purged.
    """
    gtids = parse_gtids(text, version_of(conn).flavor)
    if not gtids:
        raise PositionError("an empty GTID set", place=repr(text), hint="Ask for the earliest place instead.")
    end = current_end(conn)
    begin = begin_of(conn, settings, gtids)
    names = [log.name for log in binary_logs(conn)]
    for name in names[names.index(begin.journal_name) : names.index(end.journal_name) + 1]:
        at = _first_lacking(settings, name, gtids, end, stopped)
        if at is not None:
            return EntryPosition(name, at, gtid=str(gtids))
    return replace(end, gtid=str(gtids))


def _first_lacking(
    settings: SourceSettings, name: str, gtids: Gtids, end: EntryPosition, stopped: Callable[[], bool]
) -> int | None:
    """Its offset in a journal, None where there is none up to `end`."""
    upto = end.position if name == end.journal_name else None
    if upto == JOURNAL_START:
        return None
    with closing(read_stretch(settings, EntryPosition(name, JOURNAL_START), upto, stopped)) as blocks:
        for block in blocks:
            at = _lacking(gtids, block.data, block.index)
            if at is not None:
                return _start_of(block, at)
    return None


def _start_of(block: Block, at: int) -> int:
    """Its end less its size by its header: the block has it without its checksum."""
    size = int(block.index["offset"][at]) + _SIZE
    return int(block.index["end"][at]) - int.from_bytes(block.data[size : size + 4].tobytes(), "little")


def _lacking(gtids: Gtids, data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> int | None:
    """The first event that begins a transaction which is not in the set."""
    low, high = 0, len(index)
    if not _beyond(gtids, data, index):
        return None
    while high - low > 1:  # index[:low] has none, index[:high] has one
        middle = (low + high) // 2
        if _beyond(gtids, data, index[:middle]):
            high = middle
        else:
            low = middle
    return low


def _beyond(gtids: Gtids, data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> bool:
    """Whether a transaction that is not in the set begins in these events."""
    return bool(advanced(gtids, data, index) - gtids)  # type: ignore[operator]
