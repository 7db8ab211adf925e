"""Places within what a destination keeps, for a rewind that the source cannot serve any more.

A transaction begins at each of them. In GTID mode a place has the set that was executed before it; of MariaDB's sets
the store does not know that, so only the source is asked there. Reads the indexes of all that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cdc_core.binlog.block import Block
from cdc_core.binlog.events import GTIDS
from cdc_core.binlog.gtid_events import add_gtids
from cdc_core.gtid import Gtids, GtidSet, parse_gtids
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection, version_of
from cdc_core.source.journals import check_known
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.gtid_lookup import executed_before
from cdc_core.source.start.gtid_search import lacking
from cdc_core.source.start.time_search import of_second
from cdc_core.source.start.tree import ByGtid
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.log import Log

To = str | int | EntryPosition | ByGtid  # as in `rewind.Target`


def never() -> bool:
    """A `stopped` that never stops."""
    return False


@dataclass(frozen=True, slots=True)
class KeptPlaces:
    """`log` is a copy of the log."""

    log: Log
    settings: SourceSettings
    gtid_mode: bool
    stopped: Callable[[], bool] = never

    def find(self, conn: Connection, to: To) -> EntryPosition | None:
        """Return the place, or None if the source must be asked. Raises StoreDamaged, SourceError, and PositionError
        for a set that the server never executed."""
        if isinstance(to, ByGtid):
            return self._by_gtid(conn, parse_gtids(to.gtid, version_of(conn).flavor))
        place = None
        if isinstance(to, EntryPosition):
            place = self._by_position(to)
        elif isinstance(to, int):
            place = self._by_time(to // 1000)
        elif to == "earliest":
            place = self._earliest()
        return place if place is None or not self.gtid_mode else self._with_set(conn, place)

    def _earliest(self) -> EntryPosition | None:
        for block, rows in self._begins():
            return EntryPosition(block.journal_name, block.start_of(int(rows[0])))
        return None

    def _by_position(self, position: EntryPosition) -> EntryPosition | None:
        """The position itself, where a transaction ends."""
        log = self.log
        sequence = log.parts.sequence_behind(position)
        if sequence is None or sequence <= log.begin.sequence or not log.commits_within(sequence - 1, sequence):
            return None
        return position if log.position(sequence) == position else None

    def _by_time(self, seconds: int) -> EntryPosition | None:
        """The last transaction before a time, or the first of its second, where one that is not earlier is kept."""
        found = None
        for block, rows in self._begins():
            times = block.index["timestamp"][rows]
            at, is_met = of_second(times, seconds)
            if at >= 0:
                found = EntryPosition(block.journal_name, block.start_of(int(rows[at])), int(times[at]) * 1000)
            if is_met:
                return found
        return None

    def _by_gtid(self, conn: Connection, gtids: Gtids) -> EntryPosition | None:
        """The first transaction that is not in the set, where all that were executed before what is kept are in it."""
        check_known(conn, gtids)
        before = self._executed(conn, self.log.begin.sequence)
        if not isinstance(gtids, GtidSet) or before is None or before - gtids:
            return None
        for block in self._blocks():
            row = lacking(gtids, block)
            if row is not None:
                return EntryPosition(block.journal_name, block.start_of(row), gtid=gtids)
        return None

    def _with_set(self, conn: Connection, place: EntryPosition) -> EntryPosition | None:
        sequence = self.log.parts.sequence_behind(place)
        found = None if sequence is None else self._executed(conn, sequence)
        return None if found is None else replace(place, gtid=found)

    def _executed(self, conn: Connection, sequence: int) -> GtidSet | None:
        """What was executed before an event: what the source says for the last transaction's end, without what is kept
        from there on."""
        end, last = self.log.committed.sequence, self.log.last_commit
        if last is None or sequence > end:
            return None
        found = executed_before(conn, self.settings, last, self.stopped)
        if not isinstance(found, GtidSet):
            return None
        kept: Gtids = GtidSet()
        for part in self.log.slices(sequence, end):
            kept = add_gtids(kept, part)
        return found - kept if isinstance(kept, GtidSet) else None

    def _begins(self) -> Iterator[tuple[Block, np.ndarray[tuple[int], np.dtype[np.intp]]]]:
        """The rows of each index with which transactions begin, where there are some."""
        for block in self._blocks():
            rows = np.flatnonzero(GTIDS[block.index["type"]])
            if len(rows):
                yield block, rows

    def _blocks(self) -> Iterator[Block]:
        for part in self.log.parts.all:
            if isinstance(part, StoredSegment):
                part.check_index()
            yield part.block
