"""Reports to the service how many rows wait in quarantines, and which tables' change logs are blocked by their rows: it
shows them and does not read the lake.

A run reports all of them when it begins, and those of a batch's tables after its ack. A report that fails is made up
with the next one, and never fails the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import StoppedTable
from spark_jobs.landing.parked import Parking


class _Counted(Protocol):
    def __call__(self, epoch: int, tables: Collection[str] | None = None) -> Mapping[str, int]: ...


class _Reported(Protocol):
    def __call__(self, rows: Mapping[str, int], *, whole: bool = False) -> None: ...


@dataclass(slots=True)
class WaitingReports:
    """The reports of one run. `count` counts the rows of these tables, or of all with a quarantine; `report` sends them
    to the service; `may_wait`: whether rows of a table may go to its quarantine. `rows`: as they were counted last,
    None while that is not known."""

    count: _Counted
    report: _Reported
    may_wait: Callable[[str], bool]
    warn: Callable[[str], None]
    rows: dict[str, int] | None = None
    _owed: set[str] = field(default_factory=set)
    _known: Mapping[str, int] | None = None
    _warned: bool = False

    def begin(self, epoch: int, known: Mapping[str, int]) -> None:
        """Reports all quarantines if the service does not know the same."""
        self._known = known
        self._tried(lambda: self._whole(epoch))

    def after(self, epoch: int, tables: Collection[str], renamed: Collection[str] = ()) -> None:
        """Reports those of the tables of a batch, and of tables that followed a statement."""
        if self.rows is None:
            self._tried(lambda: self._whole(epoch))
            return
        self._owed |= {name for name in tables if name in self.rows or self.may_wait(name)} | {*renamed}
        if self._owed:
            self._tried(lambda: self._some(epoch))

    def _whole(self, epoch: int) -> None:
        rows = dict(self.count(epoch))
        if self._known is None or {name: count for name, count in rows.items() if count} != dict(self._known):
            self.report(rows, whole=True)
        self.rows = rows

    def _some(self, epoch: int) -> None:
        assert self.rows is not None
        before = self.rows
        found = self.count(epoch, sorted(self._owed))
        if any(found.get(name) or before.get(name) for name in self._owed):
            self.report(found)
        self.rows = before | dict(found)
        self._owed = set()

    def _tried(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever it is, the batch is in the lake
            if not self._warned:
                self.warn(f"how many rows wait in quarantines is not reported yet: {error}")
            self._warned = True
        else:
            self._warned = False


@dataclass(slots=True)
class BlockedReports:
    """The reports of one run that merges logs."""

    connect: Callable[[], AbstractContextManager[Connector]]
    parking: Parking
    warn: Callable[[str], None]
    _known: tuple[StoppedTable, ...] | None = None
    _warned: bool = False

    def after(self, table: str, *, is_blocked: bool) -> None:
        """Reports after a merge of the table, if it is blocked now, or the service may show that it is."""
        if is_blocked or self._known is None or any(one.table == table for one in self._known):
            self.report()

    def report(self) -> None:
        """Reports all blocked tables, unless the service knows the same. An error is made up by the next report."""
        try:
            found = self.parking.blocked()
            with self.connect() as connector:
                known = connector.client_status().blocked if self._known is None else self._known
                if found != known:
                    connector.report_blocked(found)
            self._known = found
        except Exception as error:  # whatever it is, the merges are done
            if not self._warned:
                self.warn(f"which tables are blocked is not reported yet: {error}")
            self._warned = True
        else:
            self._warned = False
