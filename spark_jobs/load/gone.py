"""A stopped table that the source no longer has: no load can end its stop, so its drop waits for a person's approval.

Approved, the lake's table is marked as dropped and goes on. Its rows stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from deltalake import CommitProperties

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.errors import SourceChanged
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import EffectKind
from cdc_core.schema.names import split_name
from spark_jobs.lake.consent import PROPOSAL, REJECTED
from spark_jobs.lake.ddl import alter_table, listed
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.record import app_versions, begun_properties, dropped_property
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import commit_nothing, transaction
from spark_jobs.load.cutover import check_lake, lift_stop
from spark_jobs.load.hold import Hold, under_hold
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import LakeClient
from spark_jobs.load.view import readable
from spark_jobs.session import Sessions
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.source import Source
from spark_jobs.stores import flush

GONE = "the source no longer has the table"


def propose_drop(connector: Connector, client: ClientStatus, table: str) -> None:
    """Makes a stop of a table that the source does not have one that waits for approval, unless it was rejected. Call
    it under a hold: a statement that ends the stop may be on its way otherwise."""
    for stop in client.stopped:
        at = stop.position or client.cursor
        if stop.table == table and at is not None and not stop.reason.startswith((PROPOSAL, REJECTED)):
            told = f"{connector.destination} {table}"
            hint = f"Approve its drop, by which its rows stay in the lake: `sluice ddl approve {told}`. "
            hint += f"Or leave it stopped: `sluice ddl reject {told}`."
            reason = f"{PROPOSAL}: {GONE}, which had stopped before: {stop.reason}"[:2000]
            connector.stop_table(table, reason=reason, hint=hint, position=at, copy_needed=stop.copy_needed)


@dataclass(frozen=True, slots=True)
class Dropping:
    """Takes over for one owner that the source has dropped tables."""

    connector: Connector
    lake: Lake
    sessions: Sessions
    source: Source
    owner: str
    run_id: str
    sleep: Callable[[float], None]

    def table(self, table: str) -> EntryPosition:
        """Marks the lake's table as dropped and ends its stop. Returns the place from which on the source does not
        have it. Raises SourceChanged for a table that the source has; what `under_hold` raises."""
        return under_hold(self.connector, self.owner, lambda hold: self._dropped(hold, table), self.sleep)

    def _dropped(self, hold: Hold, table: str) -> EntryPosition:
        connector, place = self.connector, self._gone_at(table)
        client = connector.client_status()
        writes = LakeClient(connector.destination, connector.client_id, client.epoch, self.run_id)
        target = Target.fenced(self.lake, self.sessions, writes, table)
        check_lake(self.lake, connector, client, target.app, target.path)
        state = target.entered()
        hold.check()
        if state is not None and not state.dropped:
            self._mark(target, state, place)
            flush(self.lake.root)
        lift_stop(connector, client, table, place, self.owner)
        return place

    def _gone_at(self, table: str) -> EntryPosition:
        """Returns a place at which the source does not have the table."""
        with asked(self.source, table) as connection:
            name = split_name(table)
            before, place, after = readable(connection, *name), position(connection), readable(connection, *name)
        if before is not None or after is not None:
            hint = (
                f"Approve it again, which copies the table: `sluice ddl approve {self.connector.destination} {table}`."
            )
            raise SourceChanged("the source has the table again", place=table, hint=hint)
        return place

    def _mark(self, target: Target, state: TableState, place: EntryPosition) -> None:
        """Commits the mark. What came before it does not count any more, as after a DROP."""
        client, version = target.client, place.version()
        properties = begun_properties((client.epoch, version)) | dropped_property(place)
        about = _note(client, target.name, place)
        of_drop = app_versions({target.app: version})
        noted = CommitProperties(custom_metadata={"userMetadata": about}, app_transactions=of_drop)
        if target.fence.note(target.path, properties, noted):
            return
        with self.sessions.take() as spark, lake_errors(target.path):
            alter_table(spark, target.fence, target.path, f"SET TBLPROPERTIES ({listed(properties)})")
            with transaction(spark, target.app, version, about):
                commit_nothing(spark, target.path, state.columns[0].name)


def _note(client: LakeClient, table: str, place: EntryPosition) -> str:
    """Returns Delta's user metadata of the mark's commit, as JSON: that of a statement which a batch followed."""
    owner = {"destination": client.destination, "client_id": client.client_id, "epoch": client.epoch, "table": table}
    drop = {"ddl": str(EffectKind.DROP), "mends": True, "position": str(place), "text": GONE}
    run = {"batch_id": 0, "run_id": client.run_id, "version": place.version(), "gtid": str(place.gtid or "")}
    return json.dumps(owner | drop | run)
