"""The demo: a shop on a real MySQL, captured, claimed and merged into Delta by a real Dagster, then compared.

Starts on a fresh shop and an empty lake each time; what is kept between runs are downloads and initialised data
directories. Everything it started ends with it.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError, SluiceError
from cdc_core.position import EntryPosition
from orchestration.stack import demo_files, lake_ledger, shop
from orchestration.stack.dagster import Dagster
from orchestration.stack.demo_files import DESTINATION, PASSWORD_VARIABLE
from orchestration.stack.freshness import percentiles
from orchestration.stack.home import free_port, sluice_home
from orchestration.stack.mysql import MySqlServer
from orchestration.stack.ports import Ports
from orchestration.stack.progress import Progress
from orchestration.stack.service import Service
from orchestration.stack.spark import SparkConnect
from orchestration.stack.workload import Workload, open_shop
from orchestration.stack.zookeeper import ZooKeeper

_WARM_BATCHES = 2  # Spark compiles its plans during the first ones
_FIRST_BATCH_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What the demo ends with."""

    tables: int
    differences: int
    batches: int
    rows: int
    freshness_p50_s: float
    freshness_p95_s: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Demo:
    """The running parts. Made by `running`, which also ends them."""

    def __init__(self, state: Path, ports: Ports, rate: float, progress: Progress) -> None:
        self.ports = ports
        self.lake = state / "lake"
        self.rate = rate
        self.state = state
        self.progress = progress
        self.mysql: MySqlServer
        self.service: Service
        self.dagster: Dagster
        self.workload: Workload
        self._measured_from = 0

    def connector(self) -> Connector:
        return Connector(
            self.service.url, DESTINATION, flight_url=f"grpc://127.0.0.1:{self.ports.flight}", timeout_seconds=10
        )

    def start(self, parts: ExitStack) -> None:
        """Starts every part; `parts` stops them, the last first."""
        with ThreadPoolExecutor(1) as beside:
            with self.progress.step("Delta's and Spark's jars") as notify:
                spark = SparkConnect(self.state / "spark", free_port(), notify)
            parts.callback(spark.stop)
            spark_ready = beside.submit(spark.start)
            self._start_source(parts)
            with self.progress.step(f"Spark Connect, {spark.remote}"):
                spark_ready.result()
        demo_files.write_defs(self.state / "defs", self.ports, self.lake, spark.remote)
        self.dagster = Dagster(self.state / "dagster", port=self.ports.dagster, defs=self.state / "defs")
        parts.callback(self.dagster.stop)
        with self.progress.step(f"Dagster, {self.dagster.url}"):
            self.dagster.start()

    def _start_source(self, parts: ExitStack) -> None:
        with self.progress.step("MySQL 8.0.31") as notify:
            self.mysql = MySqlServer("8.0.31", self.state / "mysql", notify=notify)
            parts.callback(self.mysql.stop)
            start = self.mysql.start().position()
        zookeeper = ZooKeeper(self.state / "zookeeper", free_port())
        parts.callback(zookeeper.stop)
        with self.progress.step(f"ZooKeeper, {zookeeper.hosts}"):
            zookeeper.start()
        conf = self.state / "conf"
        demo_files.write_conf(conf, self.ports, zookeeper.hosts, self.mysql, start)
        with self.progress.step(f"{len(shop.TABLES)} tables with their first rows"), self.mysql.root() as connection:
            open_shop(connection, random.Random(1))  # noqa: S311
        environment = {PASSWORD_VARIABLE: self.mysql.password}
        self.service = Service(conf, self.state, http_port=self.ports.http, environment=environment)
        parts.callback(self.service.stop)
        with self.progress.step(f"the capture service, {self.service.url}"):
            self.service.start()

    def load(self, seconds: float) -> None:
        """Runs the workload until the first batches are acked, then for `seconds`, which freshness is about."""
        self.workload = Workload(self.mysql.root, rate=self.rate)
        self.workload.start()
        try:
            with self.progress.step("the first batches, claimed and merged by Dagster") as notify:
                self._until_acked(notify)
            self._measured_from = len(self.workload.samples)
            with self.progress.step(f"{self.rate:.0f} rows/s for {seconds:.0f} s") as notify:
                self._watch(seconds, notify)
        finally:
            self.workload.stop()

    def stay(self) -> None:
        """Goes on with the workload until it fails. What the destination fails with is told, and does not end it."""
        self.workload.start()
        try:
            with self.progress.step("under workload") as notify, self.connector() as connector:
                while self.workload.error is None:
                    try:
                        notify(f"{self.workload.rows} rows changed, {self._check(connector)['backlog_rows']} waiting")
                    except SluiceError as error:
                        notify(str(error))
                    time.sleep(2.0)
        finally:
            self.workload.stop()

    def drain(self, seconds: float = 300.0) -> None:
        """Waits until nothing is left to claim. Raises what the destination failed with."""
        end = EntryPosition(*self.mysql.position())
        with self.progress.step("draining") as notify, self.connector() as connector:
            deadline = time.monotonic() + seconds
            while not self._drained(connector, end, notify):
                if time.monotonic() > deadline:
                    raise SluiceError(
                        f"not drained after {seconds:.0f} s",
                        place=self.dagster.url,
                        hint=f"Look at the runs there, and at the logs in {self.state}.",
                    )
                time.sleep(0.5)

    def verify(self) -> list[dict[str, Any]]:
        """Source against lake, one dict a table."""
        from spark_jobs.lake import Lake
        from spark_jobs.verify import Reader, Source, verify

        tables = [(shop.DATABASE, table) for table in shop.TABLES]
        with self.progress.step("comparing source and lake"), self.connector() as connector:
            state = connector.client_state()
            reader = Reader(DESTINATION, connector.client_id, state["epoch"], lambda: cursor_of(connector))
            source = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
            return list(verify(source, tables, Lake(self.lake), reader))

    def figures(self, compared: list[dict[str, Any]]) -> Figures:
        batches = lake_ledger.batches(self.lake, DESTINATION, 1001)
        samples = self.workload.samples[self._measured_from :]
        p50, p95 = percentiles(samples, [batch.visible for batch in batches], (0.5, 0.95))
        differences = sum(row["missing"] + row["extra"] + row["different"] for row in compared)
        return Figures(len(compared), differences, len(batches), sum(batch.rows for batch in batches), p50, p95)

    def _until_acked(self, notify: Any) -> None:
        deadline = time.monotonic() + _FIRST_BATCH_SECONDS
        with self.connector() as connector:
            while (acked := len(lake_ledger.batches(self.lake, DESTINATION, 1001))) < _WARM_BATCHES:
                self._check(connector)
                if time.monotonic() > deadline:
                    raise SluiceError(
                        f"{acked} batches were acked within {_FIRST_BATCH_SECONDS:.0f} s",
                        place=self.dagster.url,
                        hint=f"Look at the sensor and its runs there, and at the logs in {self.state}.",
                    )
                failed = self.dagster.failed_runs()
                notify(f"{self.workload.rows} rows changed so far{f', {failed} runs failed' if failed else ''}")
                time.sleep(1)

    def _watch(self, seconds: float, notify: Any) -> None:
        deadline = time.monotonic() + seconds
        with self.connector() as connector:
            while (left := deadline - time.monotonic()) > 0:
                backlog = self._check(connector)["backlog_rows"]
                notify(f"{left:.0f} s to go, {self.workload.rows} rows changed, {backlog} waiting")
                time.sleep(min(left, 2.0))

    def _check(self, connector: Connector) -> dict[str, Any]:
        """The destination's state; its failure is ours, and so is the workload's."""
        if self.workload.error is not None:
            raise self.workload.error
        status = connector.status()
        if status["error"]:
            error = status["error"]
            raise SluiceError(error["message"], place=error["place"], hint=error["hint"])
        return status

    def _drained(self, connector: Connector, end: EntryPosition, notify: Any) -> bool:
        status, client = self._check(connector), connector.client_state()
        notify(f"{client['backlog_rows']} rows waiting, {len(client['claims'])} batches under way")
        reached = status["position"] is not None and EntryPosition.from_dict(status["position"]) >= end
        return reached and not client["backlog_rows"] and not client["claims"]


def cursor_of(connector: Connector) -> EntryPosition | None:
    """How far the client has acked."""
    cursor = connector.client_state()["cursor"]
    return None if cursor is None else EntryPosition.from_dict(cursor)


@contextmanager
def running(ports: Ports, rate: float, progress: Progress) -> Iterator[Demo]:
    """A started demo. Raises ConfigError when a port is taken or another demo runs on the same state."""
    state = sluice_home() / "demo"
    state.mkdir(parents=True, exist_ok=True)
    with _alone(state), ExitStack() as parts:
        ports.check_free()
        for name in ("lake", "mysql", "zookeeper", "conf", "defs", "dagster", "spark"):
            shutil.rmtree(state / name, ignore_errors=True)
        demo = Demo(state, ports, rate, progress)
        demo.start(parts)
        parts.callback(lambda: progress.say("stopping"))
        yield demo


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    with (state / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            hint = "Stop it first, or give this one another SLUICE_HOME and other ports."
            raise ConfigError("another demo runs on the same state", place=str(state), hint=hint) from error
        handle.write(str(os.getpid()))
        yield
