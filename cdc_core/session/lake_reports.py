"""What a lake's writer reports of clients' tables, kept with their cursors, as the service does not read the lake: the
rows that wait in quarantines, and the tables whose change logs wait because their rows break what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from cdc_core.contract.quarantined_tables import bounded
from cdc_core.contract.stopped_table import StoppedTable, blocked_tables
from cdc_core.meta.cursors import Cursors


class QuarantinedRows:
    """`writing` surrounds each write of a node."""

    def __init__(self, cursors: Cursors, writing: Callable[[], AbstractContextManager[None]]) -> None:
        self._cursors, self._writing = cursors, writing
        self._of: dict[int, dict[str, int]] = {}

    def load(self, client_id: int) -> None:
        self._of[client_id] = self._cursors.quarantined(client_id)

    def of(self, client_id: int) -> dict[str, int]:
        """How many rows wait, by table; only tables of which some do."""
        return dict(self._of.get(client_id, {}))

    def report(self, client_id: int, rows: Mapping[str, int], *, whole: bool) -> None:
        """Takes over the counts of these tables, 0 for none. `whole`: of all other tables no row waits. Kept when this
        returns."""
        with self._writing():
            before = self.of(client_id)
            after = bounded(rows if whole else before | dict(rows))
            if after != before:
                self._cursors.set_quarantined(client_id, after)
                self._of[client_id] = after


class BlockedTables:
    """`writing` surrounds each write of a node."""

    def __init__(self, cursors: Cursors, writing: Callable[[], AbstractContextManager[None]]) -> None:
        self._cursors, self._writing = cursors, writing
        self._of: dict[int, tuple[StoppedTable, ...]] = {}

    def load(self, client_id: int) -> None:
        self._of[client_id] = self._cursors.blocked(client_id)

    def of(self, client_id: int) -> tuple[StoppedTable, ...]:
        return self._of.get(client_id, ())

    def report(self, client_id: int, tables: Iterable[StoppedTable]) -> None:
        """Takes over the blocked tables: no other one is. Kept when this returns."""
        with self._writing():
            after = blocked_tables(tables)
            if after != self.of(client_id):
                self._cursors.set_blocked(client_id, after)
                self._of[client_id] = after
