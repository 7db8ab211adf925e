"""`copy_beside`: one table read in one view of the source while others write and drain, then switched.

The claim is held for the switch alone. Nothing goes on behind a kill here: a copy that is begun again reads the table
anew.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.rows.columns.cells import ZeroDates
from cdc_core.schema.names import full_name
from spark_jobs.copy.open import opened
from spark_jobs.copy.registration import registered
from spark_jobs.copy.result import Broken, Copied, NoSuchTable
from spark_jobs.copy.staged import StagedRows, Staging
from spark_jobs.copy.switch import Switch
from spark_jobs.copy.table import stage_view
from spark_jobs.snapshot.source import Source


@dataclass(frozen=True, slots=True)
class TableReloader:
    """`source` is the server that the service reads."""

    switch: Switch
    source: Source
    zero_dates: ZeroDates = "fail"

    @property
    def connector(self) -> Connector:
        return self.switch.connector

    def table(
        self,
        database: str,
        table: str,
        *,
        progress: Callable[[int], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied | NoSuchTable:
        """Reloads one table and lifts its stop. Row images must be whole. A table that the source does not have
        keeps both.

        Raises Broken where what was read is of no use, SessionError while another one reads the table, and what
        `copy_table` and `Switch.table` raise. After an error the table is as it was, and no snapshot is open.
        """
        name, owner = full_name(database, table), f"copy-{uuid.uuid4().hex[:12]}"
        before = self.connector.client_status()
        first = not self.switch.lake.has(database, table)
        with registered(self.connector, name, owner, first=first, sleep=sleep) as registration:
            done, snapshot = False, registration.snapshot
            try:
                if any(one.id == snapshot.id for one in before.snapshots):
                    raise Broken("its snapshot was begun by one that is gone", place=name, hint="Copy the table again.")
                read = self._read(snapshot.id, database, table, progress, sleep)
                if isinstance(read, NoSuchTable):
                    return read
                found = self.switch.table(snapshot, read, check=registration.check, sleep=sleep)
                done = True
                return found
            finally:
                if not done:
                    stopped = any(one.table == name for one in before.stopped)
                    self._give_up(name, snapshot.id, lift=first and not stopped)

    def _read(
        self,
        snapshot_id: str,
        database: str,
        table: str,
        progress: Callable[[int], None],
        sleep: Callable[[float], None],
    ) -> StagedRows | NoSuchTable:
        lake, as_text = self.switch.lake, self.zero_dates == "string"
        with opened(self.source, database, table, as_text=as_text, sleep=sleep) as there:
            if isinstance(there, NoSuchTable):
                return there
            staging = Staging(lake, self.connector.destination, snapshot_id)
            return stage_view(staging, there, self.zero_dates, progress)

    def _give_up(self, name: str, snapshot_id: str, *, lift: bool) -> None:
        """`lift`: the snapshot's own stop ends too, where nothing has passed it."""
        with suppress(SluiceError):
            self.connector.snapshots.cancel(name)
            if lift:
                self.connector.lift_stop(name)
        Staging(self.switch.lake, self.connector.destination, snapshot_id).remove()
