"""`repair`: a table reloaded while the service runs and others drain, and its stop lifted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from cdc_core.client.connector import Connector
from cdc_core.config import InstanceConfig
from cdc_core.errors import SessionError, SourceChanged
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name
from spark_jobs.copy.beside import TableReloader
from spark_jobs.copy.hold import Hold, held
from spark_jobs.copy.open import whole_images
from spark_jobs.copy.result import Broken, Copied, LakeClient, NoSuchTable, WentOn
from spark_jobs.copy.span import asked
from spark_jobs.copy.switch import Switch, check_lake
from spark_jobs.copy.table import copy_table
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.snapshot.source import Source, captured_source

_TRIES = 5
_BESIDE = 2  # tries while others go on


@dataclass(frozen=True, slots=True)
class Repair:
    """What is needed to copy tables of one destination. `instance` says how to reach the source."""

    connector: Connector
    instance: InstanceConfig
    lake: Lake
    sessions: Sessions
    run_id: str = ""

    def table(
        self,
        database: str,
        table: str,
        *,
        progress: Callable[[int], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied | NoSuchTable:
        """Reloads one table and lifts its stop. A table that the source does not have keeps both. It is read while
        others go on; where images leave columns out, or that fails twice, while a claim is held.

        Raises SessionError while another one reads the table, and what `while_held` raises.
        """
        for _ in range(_BESIDE):
            source = captured_source(self.instance, self.connector.status().source)
            if not _whole(source, full_name(database, table)):
                break
            zero_dates = self.instance.zero_dates
            switch = Switch(self.connector, self.lake, self.sessions, self.run_id, source, zero_dates)
            with suppress(Broken):
                beside = TableReloader(switch, source, self.instance.zero_dates)
                return beside.table(database, table, progress=progress, sleep=sleep)
        return self.while_held(database, table, progress=progress, sleep=sleep)

    def while_held(
        self,
        database: str,
        table: str,
        *,
        progress: Callable[[int], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied | NoSuchTable:
        """The same while a claim is held from the beginning: nobody gets what lies behind it.

        Raises what `copy_table` raises; LakeError for a lake that is not the destination's, SourceChanged when the
        service goes to another server or is reset meanwhile.
        """
        owner = f"copy-{uuid.uuid4().hex[:12]}"
        for _ in range(_TRIES - 1):
            with suppress(WentOn), held(self.connector, owner) as hold:
                return self._try(owner, hold, database, table, progress, sleep)
            sleep(1.0)
        with held(self.connector, owner) as hold:
            return self._try(owner, hold, database, table, progress, sleep)

    def _try(
        self,
        owner: str,
        hold: Hold,
        database: str,
        table: str,
        progress: Callable[[int], None],
        sleep: Callable[[float], None],
    ) -> Copied | NoSuchTable:
        connector, name = self.connector, full_name(database, table)
        client, status = connector.client_status(), connector.status()
        source = captured_source(self.instance, status.source)
        writes = LakeClient(connector.destination, connector.client_id, client.epoch, self.run_id)
        check_lake(self.lake, connector, client, writes.app(name), self.lake.path(database, table))

        def confirm(_: EntryPosition) -> None:
            hold.check()
            now = connector.status().source
            if connector.client_status().epoch != client.epoch or now.server_id != source.server_id:
                hint = "Copy the table again."
                raise SourceChanged("the destination was reset, or reads another server now", place=name, hint=hint)

        found = copy_table(
            source,
            self.lake,
            self.sessions,
            Fence(self.lake, self.sessions),
            writes,
            database,
            table,
            zero_dates=self.instance.zero_dates,
            progress=progress,
            confirm=confirm,
            sleep=sleep,
        )
        if isinstance(found, Copied) and any(stop.table == name for stop in client.stopped):
            self._lift(name, found, owner)
        return found

    def _lift(self, name: str, found: Copied, owner: str) -> None:
        """Raises WentOn where changes behind the copy were acked: then nothing was held."""
        try:
            self.connector.lift_stop(name, copied=found.place.low, owner=owner)
        except SessionError as error:
            raise WentOn(name) from error


def _whole(source: Source, table: str) -> bool:
    with asked(source, table, "copy the table again") as connection:
        return whole_images(connection)
