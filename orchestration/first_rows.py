"""Finds the tables whose rows from before the capture the lake lacks, and stops them until a snapshot brings the rows.

The snapshot job looks for stops with an open snapshot, or with the reason below for tables without a key. So nothing is
lost when a sensor or a run ends in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.snapshot import FIRST_START
from cdc_core.contract.stopped_table import CHANGES_PURGED, FILTERED_OUT, PAUSED, StoppedTable
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import EffectKind
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.consent import waiting_ones
from spark_jobs.load.load_snapshot import is_job

REASON = "its first rows are not in the lake yet"
_COPIED = (REASON, CHANGES_PURGED, FILTERED_OUT)  # a copy ends these stops
_MADE = (EffectKind.CREATE, EffectKind.CREATE_FILLED, EffectKind.RENAME)


@dataclass(slots=True)
class FirstRows:
    """`in_lake`: whether the lake has a table, whatever it holds. Tables that it had, `there`, are not looked at
    again."""

    connector: Connector
    in_lake: Callable[[TableSchema], bool]
    there: set[str] = field(default_factory=set)

    def begin(self, tables: Iterable[TableSchema], at: EntryPosition) -> list[str]:
        """Has the service stop the tables that the lake does not have, and keep their changes for a snapshot. Returns
        their names. A table that is stopped stays as it is."""
        missing = [table for table in tables if not table.is_sequence and not self._is_there(table)]
        if not missing:
            return []
        client = self.connector.client_status()
        known = {stop.table for stop in client.stopped} | {one.table for one in client.snapshots}
        begun = [table for table in missing if table.name not in known]
        for table in begun:
            self._begin(table, at)
        return [table.name for table in begun]

    def begin_of(self, claim: Claim) -> list[str]:
        """Does the same for a claim's tables before it is applied, except the tables that its own statements create."""
        effects = [effect for ddl in claim.ddl for effect in ddl.effects if effect.kind in _MADE]
        made = {effect.name for effect in effects} | {full_name(*effect.to) for effect in effects if effect.to}
        return self.begin([one.schema for one in claim.tables if one.schema.name not in made], claim.start)

    def _is_there(self, table: TableSchema) -> bool:
        if table.name not in self.there and self.in_lake(table):
            self.there.add(table.name)
        return table.name in self.there

    def _begin(self, table: TableSchema, at: EntryPosition) -> None:
        if table.primary_key:
            self.connector.snapshots.open(table.name, owner=FIRST_START, first=True, lease_seconds=1)
            return
        hint = f"Wait for its snapshot; an interrupted one continues with: {_command(self.connector, table)}."
        self.connector.stop_table(table.name, reason=REASON, hint=hint, position=at, copy_needed=True)


def waiting(client: ClientStatus, now: float, *, complete: bool) -> list[str]:
    """Returns the tables to read, which no run reads: stopped ones that wait for their first rows, or for a reload
    after a reset or after a time outside the filter; the ones of a job that ended; with `complete` all that the stream
    cannot complete, except tables that an operator stopped. One that waits for a person's consent is not read, also if
    a snapshot of it had begun by then."""
    opened = {one.table: one.lease_deadline for one in client.snapshots}
    asking = waiting_ones(client.stopped)
    idle = [stop for stop in client.stopped if stop.table not in asking and opened.get(stop.table, 0.0) < now]
    left = {one.table for one in client.snapshots if is_job(one.owner) and one.lease_deadline < now}
    return sorted(
        {
            stop.table
            for stop in idle
            if stop.table in opened or stop.reason in _COPIED or (complete and _is_incomplete(stop))
        }
        | (left - {*asking})
    )


def _is_incomplete(stop: StoppedTable) -> bool:
    return (stop.copy_needed or stop.passed is not None) and not stop.reason.startswith(PAUSED)


def _command(connector: Connector, table: TableSchema) -> str:
    return f"sluice snapshot {connector.destination} {table.name}"
