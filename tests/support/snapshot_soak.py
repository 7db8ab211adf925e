"""Snapshots of tables of many kinds under random DML, drains and faults; at the end the lake is what the source is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pymysql

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.config import InstanceConfig
from cdc_core.contract.client_status import ClientStatus
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import SluiceError, SourceChanged, SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.tables import Lake
from spark_jobs.load import groups, registration, several, small_reader
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.result import Copied
from spark_jobs.snapshot import place
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.source import Source
from tests.support.door_double import opened
from tests.support.judge.verify import Reader, verify
from tests.support.plain_lake import PlainLake, replacing
from tests.support.reading import nothing_between
from tests.support.servers import free_port
from tests.support.shop import until_running, write_conf
from tests.support.snapshot_kills import OF_SMALL, PLACES, Killed, harmed, killed
from tests.support.snapshot_script import Script, Table, tables

_SECONDS = 120.0  # for the service to read what the source has written


@dataclass
class Outcome:
    """`differences`: missing, extra and different rows of tables that are not as the source's."""

    taken: int = 0
    rows: int = 0
    statements: int = 0
    events: dict[str, int] = field(default_factory=dict)
    differences: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    error: str = ""

    @property
    def clean(self) -> bool:
        return not self.differences and not self.error

    def count(self, event: str) -> None:
        self.events[event] = self.events.get(event, 0) + 1


@dataclass
class SnapshotSoak:
    """One script. `gtid`: the service reads by GTID. `owned`: MySQL is killed as well as the runs and the service.
    `names`: of the tables, () for all."""

    mysql: MySqlServer
    folder: Path
    seed: int
    gtid: bool = False
    owned: bool = False
    names: tuple[str, ...] = ()
    longest: int = 2000
    outcome: Outcome = field(default_factory=Outcome)

    def run(self, snapshots: int) -> Outcome:
        """So many snapshots, with what happens meanwhile; then a comparison."""
        self._rng = Random(self.seed)
        known = tables("utf8mb4_0900_ai_ci" if self.mysql.version[0] in "89" else "utf8mb4_unicode_ci")
        self._tables = [table for table in known if table.name in self.names or not self.names]
        self._busy = threading.Lock()
        try:
            with self._open():
                self._snapshots(self._tables if self._rng.random() < 0.5 else [])
                for table in self._tables:
                    self._snapshot(table)
                for _ in range(snapshots):
                    if self._rng.random() < 0.3:
                        self._snapshots(self._rng.sample(self._tables, self._rng.randint(1, len(self._tables))))
                    else:
                        self._snapshot(self._rng.choice(self._tables))
                    if self._rng.random() < 0.4:
                        self._compare()
                self._compare()
        except Exception as error:
            import traceback

            traceback.print_exc()
            self.outcome.error = f"{type(error).__name__}: {error}"[:600]
        return self.outcome

    @contextmanager
    def _open(self) -> Iterator[None]:
        with ExitStack() as stack:
            self._database = stack.enter_context(self.mysql.database("soak"))
            self._writers = [self._session(), self._session()]
            stack.callback(self._hang_up)
            self._scripts = [Script(self._rng, self._tables, self.longest) for _ in self._writers]
            for number, table in enumerate(self._tables):
                self._execute(0, table.create)
                if number:  # the first one is empty
                    self._execute(0, self._scripts[0].rows(table, self._rng.choice((1, 40, 150))))
            keys = {"canal_instance_gtidon": "true"} if self.gtid else {}
            self._conf = write_conf(self.folder / "conf", self.mysql, self._database, **keys)
            self._ports = free_port(), free_port()
            self._service = stack.enter_context(ExitStack())
            self._serve()
            http, flight = (
                f"{scheme}://127.0.0.1:{port}" for scheme, port in zip(("http", "grpc"), self._ports, strict=True)
            )
            self._connector = stack.enter_context(Connector(http, "shop", flight_url=flight))
            until_running(self._connector)
            self._lake = PlainLake(self._connector, Lake(self.folder / "lake", complete=True))
            for patched in (
                mock.patch.object(groups, "ROWS_PER_GROUP", 1),
                mock.patch.object(registration, "LEASE_SECONDS", 1.0),
                mock.patch.object(place, "_SETTLE_SECONDS", 0.05),
                mock.patch.object(groups, "read_chunks", self._read_chunks(groups.read_chunks)),
                mock.patch.object(small_reader, "read_rows", self._read_rows(small_reader.read_rows)),
                mock.patch.object(several, "_REPORT_SECONDS", 0.05),
                replacing(),
            ):
                stack.enter_context(patched)
            yield

    def _read_chunks(self, read: Any) -> Any:
        def chunks(source: Source, schema: Any, conditions: list[str], *more: Any) -> Iterator[Any]:
            for condition in conditions:
                yield from read(source, schema, [condition], *more)
                self._meanwhile()

        return chunks

    def _read_rows(self, read: Any) -> Any:
        def rows(*given: Any, **more: Any) -> Iterator[Any]:
            yield from read(*given, **more)
            self._meanwhile()

        return rows

    def _serve(self) -> None:
        server = CanalServer(config.load_service(self._conf)[0], self._conf)
        server.start()
        self._service.callback(server.stop)
        self._service.enter_context(opened(HttpDoor(server, "127.0.0.1", self._ports[0])))
        self._service.enter_context(opened(FlightDoor(server, "127.0.0.1", self._ports[1])))

    def _session(self) -> pymysql.Connection[Any]:
        connection = self.mysql.root(self._database)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = '', innodb_lock_wait_timeout = 1")
        return connection

    def _hang_up(self) -> None:
        """Open transactions would keep the database from being dropped."""
        for writer in self._writers:
            with suppress(pymysql.MySQLError):
                writer.close()

    def _execute(self, writer: int, statement: str) -> None:
        self.outcome.statements += 1
        try:
            with self._writers[writer].cursor() as cursor:
                cursor.execute(statement)
        except pymysql.MySQLError:  # refused whole, or the server was killed
            if not self._writers[writer].open:
                self._writers[writer] = self._session()

    def _meanwhile(self, *_: object) -> None:
        """Some random steps of others. None while others are at it."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            for _ in range(self._rng.choice((0, 2, 5, 8))):
                self._step(alone=threading.current_thread() is not threading.main_thread())
        finally:
            self._busy.release()

    def _step(self, *, alone: bool = False) -> None:
        """`alone`: only the source is written. delta-rs' own threads may not call it again."""
        draw = self._rng.random() * (0.88 if alone else 1)
        if draw < 0.88:
            self._execute(writer := self._rng.randrange(2), self._scripts[writer].statement())
        elif draw < 0.98:
            self._drain()
        elif draw < 0.99:
            self.outcome.count("service restarted")
            self._service.close()
            self._serve()
            until_running(self._connector)
        elif self.owned and draw < 0.994:
            self.outcome.count("MySQL killed")
            self.mysql.kill()
            self.mysql.start()
            self._writers = [self._session(), self._session()]

    def _drain(self) -> None:
        """By a run that may die before its ack."""
        with suppress(Killed, SourceUnavailable), ExitStack() as stack:
            if self._rng.random() < 0.2:
                self.outcome.count("run killed")
                stack.enter_context(killed(Ledger, "note", after=self._rng.random() < 0.5))
            self._lake.drain(self._rng.choice((3, 30, 100, 1000)))

    def _drained(self) -> ClientStatus:
        """The client's status when nothing is left, as far as the service has read."""
        with suppress(SourceUnavailable):
            self._lake.drain(1000)
        return self._connector.client_status()

    def _snapshot(self, table: Table) -> None:
        """Until it is in the lake: killed, cancelled, begun again."""
        instance, _ = config.load_instance(self._conf, "shop")
        for attempt in range(30):
            taken = self._loader(instance)
            try:
                with harmed(self._rng, attempt, PLACES):
                    found = taken.table(self._database, table.name, report=self._meanwhile, sleep=_sleep)
            except (Killed, SourceUnavailable, SourceChanged, SluiceError) as error:
                self.outcome.count(
                    f"{type(error).__name__}" + (f": {str(error)[:90]}" if not isinstance(error, Killed) else "")
                )
                self._meanwhile()
                if self._rng.random() < 0.2:
                    self.outcome.count("cancelled")
                    taken.cancel(f"{self._database}.{table.name}")
                continue
            assert isinstance(found, Copied), found
            self.outcome.taken += 1
            self.outcome.rows += found.rows
            return
        raise AssertionError(f"{table.name} is never read")

    def _snapshots(self, chosen: Sequence[Table]) -> None:
        """Of several tables, many at a time, until all are in the lake. What goes wrong with one is that one's; the
        loader may also be gone after any of them."""
        instance, _ = config.load_instance(self._conf, "shop")
        left = {f"{self._database}.{table.name}" for table in chosen}
        for attempt in range(30):
            taken = self._loader(instance)
            several_of = taken.tables(sorted(left), report=self._meanwhile, sleep=_sleep)
            with suppress(SluiceError), harmed(self._rng, attempt, (*PLACES, *OF_SMALL)), closing(several_of):
                for loading in several_of:
                    try:
                        found = loading.outcome()
                    except (Killed, SluiceError) as error:
                        self.outcome.count(f"of many: {type(error).__name__}")
                        continue
                    assert isinstance(found, Copied), found
                    left.remove(loading.name)
                    self.outcome.taken += 1
                    self.outcome.rows += found.rows
                    self.outcome.count("small" if loading.seconds is not None else "by itself")
                    if attempt < 9 and self._rng.random() < 0.1:
                        self.outcome.count("loader gone")
                        break
            if not left:
                return
            self._meanwhile()
        raise AssertionError(f"{left} are never read")

    def _loader(self, instance: InstanceConfig) -> Loader:
        rows, connections = self._rng.choice((12, 25, 60, 1000)), self._rng.choice((1, 2, 3))
        manner = Manner(rows, Limits(connections=connections), read_on="driver")
        return Loader(self._connector, instance, self._lake.lake, self._lake.sessions, manner)

    def _compare(self) -> None:
        end, deadline = EntryPosition(*self.mysql.position()), time.monotonic() + _SECONDS
        while not nothing_between(self.mysql, (client := self._drained()).cursor, end):
            assert time.monotonic() < deadline, f"the service does not reach {end}"
        assert not client.stopped, client.stopped
        named = [(self._database, table.name) for table in self._tables]
        where = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
        reader = Reader("shop", self._connector.client_id, client.epoch, lambda: self._connector.client_status().cursor)
        for one in verify(where, named, self._lake.lake, reader, timeout_seconds=60):
            rows = one.comparison
            assert rows is not None, one.error
            if rows.missing or rows.extra or rows.different:
                self.outcome.differences[one.table] = (rows.missing, rows.extra, rows.different)
        assert not self.outcome.differences


def _sleep(seconds: float) -> None:
    time.sleep(min(seconds, 1.1))
