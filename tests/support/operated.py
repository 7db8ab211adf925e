"""A destination that Dagster's own processes operate: a source, the service, the daemon with its sensors, the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from orchestration.source import CONF_VARIABLE
from orchestration.stack.dagster import Dagster
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.service import Service
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.source import Source
from tests.support.judge.verify import Reader, verify
from tests.support.servers import free_port
from tests.support.shop import write_conf

PATIENCE = 600.0  # seconds, for what a run does on a loaded machine
_T = TypeVar("_T")


@dataclass(frozen=True)
class Operated:
    """The destination `shop`, drained by Dagster's sensor as rows come."""

    mysql: MySqlServer
    database: str
    connector: Connector
    lake: Lake
    dagster: Dagster
    instance: dg.DagsterInstance
    service: str  # its HTTP door

    def sql(self, *statements: str) -> None:
        self.mysql.execute(*statements, database=self.database)

    def differences(self, *tables: str) -> list[dict[str, Any]]:
        """Waits until the lake has what the source has, and returns the tables that differ all the same."""
        until("everything is acked", self._drained)
        where = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
        reader = Reader("shop", self.connector.client_id, self.connector.client_status().epoch, self.cursor)
        named = [(self.database, table) for table in tables]
        found = list(verify(where, named, self.lake, reader, timeout_seconds=PATIENCE))
        return [row.to_dict() for row in found if row.differences]

    def cursor(self) -> EntryPosition | None:
        return self.connector.client_status().cursor

    def run(self, run_id: str) -> dg.DagsterRun:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def _drained(self) -> bool:
        end = EntryPosition(*self.mysql.position())
        status, client = self.connector.status(), self.connector.client_status()
        reached = status.position is not None and status.position >= end
        return reached and not client.waiting and not client.claims


def until(what: str, look: Callable[[], _T | None], seconds: float = PATIENCE) -> _T:
    """The first answer that is neither None nor False; a SluiceError counts as no answer."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(SluiceError):
            if found := look():
                return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.2)


@contextmanager
def operated(mysql: MySqlServer, spark: str, folder: Path, *tables: str, **settings: Any) -> Iterator[Operated]:
    """Starts the service and Dagster for a database that has these tables already, each with an integer key and a text.
    `settings` are more of defs.yaml."""
    with ExitStack() as parts:
        database = parts.enter_context(mysql.database("operated"))
        for table in tables:
            mysql.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, note VARCHAR(40))", database=database)
        conf = write_conf(folder / "conf", mysql, database)
        http, flight = free_port(), free_port()
        with (conf / "canal.properties").open("a") as file:
            file.write(f"canal.ip = 127.0.0.1\ncanal.metrics.pull.port = {http}\nsluice.flight.port = {flight}\n")
        service = parts.enter_context(Service(conf, folder, http_port=http))
        doors = {"http": service.url, "flight": f"grpc://127.0.0.1:{flight}"}
        lake = Lake(folder / "lake", complete=True)
        place = {"destination": "shop", "lake": lake.root, "conf": str(conf), "service": doors, "spark": spark}
        limits = {"trigger": {"interval_seconds": 2}, "linger_seconds": 1, "complete": True}
        write_component(folder / "defs" / "shop" / "defs.yaml", place | limits | settings)
        started = Dagster(
            folder / "dagster", port=free_port(), defs=folder / "defs", environment={CONF_VARIABLE: str(conf)}
        )
        parts.callback(started.stop)
        started.start()
        instance = parts.enter_context(dg.DagsterInstance.from_config(str(started.home)))
        connector = parts.enter_context(Connector(service.url, "shop", flight_url=doors["flight"]))
        yield Operated(mysql, database, connector, lake, started, instance, service.url)
