"""The demo: a shop on a real MySQL, which a real Dagster brings into Delta, and a comparison of both.

Each run begins with a new shop and an empty lake; only downloads and initialised data directories are kept. Every
server that it starts ends with it.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_core.client.connector import Connector
from cdc_core.contract.status import Status
from cdc_core.errors import ConfigError, SluiceError
from cdc_core.position import EntryPosition
from orchestration.demo import files as demo_files
from orchestration.demo import shop
from orchestration.demo.files import DESTINATION, PASSWORD_VARIABLE
from orchestration.demo.freshness import batches, percentiles
from orchestration.demo.workload import Workload, add_history, open_shop
from orchestration.stack.dagster import Dagster
from orchestration.stack.home import sluice_home
from orchestration.stack.metastore import metastore_in
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import Ports, free_port, listening
from orchestration.stack.progress import Progress
from orchestration.stack.service import Service
from orchestration.stack.spark import SPARK_PORT, SparkConnect
from orchestration.stack.warming import FOLDER, Warming, holds_claims
from orchestration.stack.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from spark_jobs.verify.verified import Verified

_WARM_BATCHES = 2  # Spark compiles its plans during the first ones
_FIRST_BATCH_SECONDS = 600.0  # a machine under load starts Dagster's runs slowly


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of a demo. Freshness is in seconds, from the commit at the source until a row is visible in Delta."""

    tables: int
    differences: int
    batches: int
    rows: int
    freshness_p50_s: float
    freshness_p95_s: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Demo:
    """The servers and the workload of a running demo. `running` starts and stops it."""

    def __init__(
        self,
        state: Path,
        ports: Ports,
        rate: float,
        progress: Progress,
        *,
        warm: bool = True,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.ports = ports
        self.settings = settings
        self.warm = warm
        self.lake = state / "lake"
        self.rate = rate
        self.state = state
        self.progress = progress
        self.mysql: MySqlServer
        self.service: Service
        self.spark: SparkConnect
        self.dagster: Dagster
        self.workload: Workload
        self._measured_from = 0

    def connector(self) -> Connector:
        return Connector(
            self.service.url, DESTINATION, flight_url=f"grpc://127.0.0.1:{self.ports.flight}", timeout_seconds=10
        )

    def start(self, parts: ExitStack) -> None:
        """Starts every server, Spark in parallel to the others. `parts` stops them in reverse order."""
        with ThreadPoolExecutor(1) as threads:
            with self.progress.step("Delta's and Spark's jars") as notify:
                port = free_port() if listening(SPARK_PORT) else SPARK_PORT
                metastore = metastore_in(str(self.lake))
                spark = self.spark = SparkConnect(self.state / "spark", port, notify, metastore=metastore)
            warming = Warming(spark.remote, spark.scratch / FOLDER, self.progress, self._claimed)
            parts.callback(warming.clean)  # after Spark's end
            parts.callback(spark.stop)
            parts.callback(warming.stop)
            spark_ready = threads.submit(self._start_spark, spark, warming)
            self._start_source(parts)
            with self.progress.step(f"Spark Connect, {spark.remote}"):
                spark_ready.result()
        place = self.state / "defs", self.state / "conf"
        demo_files.write_defs(*place, self.ports, self.lake, spark.remote, self.settings)
        demo_files.write_mart(self.state / "defs", self.lake, spark.remote)
        self.dagster = Dagster(
            self.state / "dagster",
            port=self.ports.dagster,
            defs=self.state / "defs",
            environment={PASSWORD_VARIABLE: self.mysql.password, **warming.environment},
        )
        self._launch(parts, f"Dagster, {self.dagster.url}", self.dagster)

    def _start_spark(self, spark: SparkConnect, warming: Warming) -> None:
        spark.start()
        if self.warm:
            warming.start()

    def _launch(self, parts: ExitStack, label: str, server: Dagster | Service | ZooKeeper) -> None:
        """Starts a server as one step of the progress. `parts` stops it, also when its start fails."""
        parts.callback(server.stop)
        with self.progress.step(label):
            server.start()

    def _claimed(self) -> bool:
        return holds_claims(f"http://127.0.0.1:{self.ports.http}")

    def _start_source(self, parts: ExitStack) -> None:
        with self.progress.step("MySQL 8.0.31") as notify:
            self.mysql = MySqlServer("8.0.31", self.state / "mysql", notify=notify)
            parts.callback(self.mysql.stop)
            self.mysql.start()
        rows = f"{len(shop.TABLES)} tables, with the rows of before the capture"
        with self.progress.step(rows), self.mysql.root() as connection:
            open_shop(connection, random.Random(1))  # noqa: S311
            add_history(connection)
        grant = f"GRANT LOCK TABLES ON *.* TO '{self.mysql.user}'@'%'"
        self.mysql.execute(grant)  # for the exact place of the table without a key
        zookeeper = ZooKeeper(self.state / "zookeeper", free_port())
        self._launch(parts, f"ZooKeeper, {zookeeper.hosts}", zookeeper)
        conf = self.state / "conf"
        demo_files.write_conf(conf, self.ports, zookeeper.hosts, self.mysql, self.mysql.position())
        environment = {PASSWORD_VARIABLE: self.mysql.password}
        self.service = Service(conf, self.state, http_port=self.ports.http, environment=environment)
        self._launch(parts, f"the capture service, {self.service.url}", self.service)

    def load(self, seconds: float) -> None:
        """Runs the workload until the first batches are acked, then for `seconds`, in which freshness is measured."""
        self.workload = Workload(self.mysql.root, rate=self.rate)
        self.workload.start()
        try:
            with self.progress.step("the first batches, claimed and merged by Dagster") as notify:
                self._until_acked(notify)
            with self.progress.step("the rows of before the capture, by snapshots that Dagster takes") as notify:
                self._until_whole(notify)
            self._measured_from = len(self.workload.samples)
            with self.progress.step(f"{self.rate:.0f} rows/s for {seconds:.0f} s") as notify:
                self._watch(seconds, notify)
        finally:
            self.workload.stop()

    def stay(self) -> None:
        """Continues the workload until it fails. A failure of the destination is shown, but does not end the demo."""
        self.workload.start()
        try:
            with self.progress.step("under workload") as notify, self.connector() as connector:
                while self.workload.error is None:
                    try:
                        notify(f"{self.workload.rows} rows changed, {self._check(connector).backlog_rows} waiting")
                    except SluiceError as error:
                        notify(str(error))
                    time.sleep(2.0)
        finally:
            self.workload.stop()

    def drain(self, seconds: float = 300.0) -> None:
        """Waits until all changes are claimed and acked. Raises the destination's error when it fails."""
        end = EntryPosition(*self.mysql.position())
        with self.progress.step("draining") as notify, self.connector() as connector:
            deadline = time.monotonic() + seconds
            while not self._drained(connector, end, notify):
                if time.monotonic() > deadline:
                    raise SluiceError(
                        f"the backlog is not drained after {seconds:.0f} s",
                        place=self.dagster.url,
                        hint=f"Look at the runs on that page, and at the logs in {self.state}.",
                    )
                time.sleep(0.5)

    def verify(self) -> list[Verified]:
        """Source against lake, table by table."""
        from spark_jobs.lake.tables import Lake
        from spark_jobs.snapshot.source import Source
        from spark_jobs.verify.comparer import TableComparer, compared

        with self.progress.step("comparing source and lake"), self.connector() as connector:
            source = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
            comparer = TableComparer(connector, source, Lake(self.lake))
            return list(compared(comparer, [(shop.DATABASE, table) for table in shop.TABLES]))

    def figures(self, compared: list[Verified]) -> Figures:
        applied = batches(self.lake, DESTINATION, 1001)
        samples = self.workload.samples[self._measured_from :]
        p50, p95 = percentiles(samples, [batch.visible for batch in applied], (0.5, 0.95))
        differences = sum(row.differences for row in compared)
        return Figures(len(compared), differences, len(applied), sum(batch.rows for batch in applied), p50, p95)

    def _until_acked(self, notify: Any) -> None:
        deadline = time.monotonic() + _FIRST_BATCH_SECONDS
        with self.connector() as connector:
            while (acked := len(batches(self.lake, DESTINATION, 1001))) < _WARM_BATCHES:
                self._check(connector)
                if time.monotonic() > deadline:
                    raise SluiceError(
                        f"only {acked} of {_WARM_BATCHES} batches were acked within {_FIRST_BATCH_SECONDS:.0f} s",
                        place=self.dagster.url,
                        hint=f"Look at the sensor and its runs on that page, and at the logs in {self.state}.",
                    )
                failed = self.dagster.failed_runs()
                notify(f"{self.workload.rows} rows changed so far{f', {failed} runs failed' if failed else ''}")
                time.sleep(1)

    def _until_whole(self, notify: Any) -> None:
        """Waits until the lake has all tables with their rows of before the capture."""
        from spark_jobs.lake.tables import Lake

        lake, deadline = Lake(self.lake), time.monotonic() + _FIRST_BATCH_SECONDS
        with self.connector() as connector:
            while waiting := [table for table in shop.TABLES if not lake.has(shop.DATABASE, table)]:
                self._check(connector)
                if time.monotonic() > deadline:
                    hint = f"Look at the job snapshot_{DESTINATION} and its runs on that page."
                    raise SluiceError(f"still not in the lake: {', '.join(waiting)}", place=self.dagster.url, hint=hint)
                notify(f"{len(shop.TABLES) - len(waiting)} of {len(shop.TABLES)} tables")
                time.sleep(1)

    def _watch(self, seconds: float, notify: Any) -> None:
        deadline = time.monotonic() + seconds
        with self.connector() as connector:
            while (left := deadline - time.monotonic()) > 0:
                backlog = self._check(connector).backlog_rows
                notify(f"{left:.0f} s to go, {self.workload.rows} rows changed, {backlog} waiting")
                time.sleep(min(left, 2.0))

    def _check(self, connector: Connector) -> Status:
        """The destination's status. Raises its error, or the workload's."""
        if self.workload.error is not None:
            raise self.workload.error
        status = connector.status()
        if status.error is not None:
            raise status.error.as_error()
        return status

    def _drained(self, connector: Connector, end: EntryPosition, notify: Any) -> bool:
        status, client = self._check(connector), connector.client_status()
        notify(f"{client.backlog_rows} rows waiting, {len(client.claims)} batches under way")
        reached = status.position is not None and status.position >= end
        return reached and not client.waiting and not client.claims


@contextmanager
def running(
    ports: Ports,
    rate: float,
    progress: Progress,
    *,
    warm: bool = True,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Demo]:
    """A started demo; `settings` are more attributes of its defs.yaml. Raises ConfigError when a port is taken, or
    another demo uses the same directory."""
    state = sluice_home() / "demo"
    state.mkdir(parents=True, exist_ok=True)
    with _locked(state), ExitStack() as parts:
        ports.check_free()
        for name in ("lake", "mysql", "zookeeper", "conf", "defs", "dagster", "spark"):
            shutil.rmtree(state / name, ignore_errors=True)
        demo = Demo(state, ports, rate, progress, warm=warm, settings=settings)
        demo.start(parts)
        parts.callback(lambda: progress.say("stopping"))
        yield demo


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    with (state / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            hint = "Stop it first, or start this one with another SLUICE_HOME and other ports."
            raise ConfigError("another demo uses the same directory", place=str(state), hint=hint) from error
        handle.write(str(os.getpid()))
        yield
