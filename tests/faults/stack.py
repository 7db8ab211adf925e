"""The whole stack as real processes, and what a fault needs: kill a part, start it again, wait, compare."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import httpx
import psutil

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClaimStatus
from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from orchestration.demo import files as demo_files
from orchestration.demo.files import DESTINATION, PASSWORD_VARIABLE
from orchestration.stack.dagster import Dagster
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import Ports, free_port
from orchestration.stack.service import Service
from orchestration.stack.spark import SparkConnect
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.source import Source
from spark_jobs.verify.verified import Verified
from tests.faults.points import VARIABLE, Points
from tests.support.bank import DATABASE, TABLES, Bank
from tests.support.judge.verify import Reader, verify
from tests.support.servers import discard
from tests.support.waiting import pause_after

PARTS = ("service", "run", "spark", "zookeeper", "mysql")
_T = TypeVar("_T")


class Stack:
    """The parts by name. A killed part keeps its ports and its data. `options` are more of MySQL's; `variables` more of
    Dagster's processes."""

    def __init__(
        self, state: Path, options: Mapping[str, Any] | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        (state / "points").mkdir()
        self.state = state
        self.points = Points(state / "points")
        self.ports = Ports(http=free_port(), flight=free_port(), dagster=free_port())
        self.lake = Lake(state / "lake")
        self.mysql = MySqlServer("8.0.31", state / "mysql", **(options or {}))
        self.zookeeper = ZooKeeper(state / "zookeeper", free_port())
        self.spark = SparkConnect(state / "spark", free_port(), driver_memory="1g")
        self.bank = Bank(self.mysql.root, random.Random(11))
        self.service = Service(
            state / "conf", state, http_port=self.ports.http, environment={PASSWORD_VARIABLE: self.mysql.password}
        )
        self.dagster = Dagster(
            state / "dagster",
            port=self.ports.dagster,
            defs=state / "defs",
            environment={
                VARIABLE: str(self.points.directory),
                PASSWORD_VARIABLE: self.mysql.password,
                **(variables or {}),
            },
            module="tests.faults.location",
        )
        self.instance: dg.DagsterInstance

    def start(self, parts: ExitStack) -> None:
        parts.callback(self.spark.kill)
        with ThreadPoolExecutor(1) as beside:
            spark_ready = beside.submit(self.spark.start)
            self._start_source(parts)
            spark_ready.result()
        self._write_defs()
        parts.callback(self.dagster.stop)
        self.dagster.start()
        self.instance = parts.enter_context(dg.DagsterInstance.from_config(str(self.dagster.home)))

    def _start_source(self, parts: ExitStack) -> None:
        parts.callback(discard, self.mysql)
        start = self.mysql.start().position()
        self.bank.open()
        for part in (self.zookeeper, self.service):
            parts.callback(part.kill)
        self.zookeeper.start()
        self._write_conf(start)
        self.service.start()

    def _write_conf(self, start: tuple[str, int]) -> None:
        demo_files.write_conf(self.state / "conf", self.ports, self.zookeeper.hosts, self.mysql, start)

    def _write_defs(self) -> None:
        write_component(self.state / "defs" / DESTINATION / "defs.yaml", self._attributes())

    def _attributes(self) -> dict[str, object]:
        return {
            "destination": DESTINATION,
            "lake": self.lake.root,
            "service": {"http": self.service.url, "flight": f"grpc://127.0.0.1:{self.ports.flight}"},
            "spark": self.spark.remote,
            "tables": [f"{DATABASE}.{table}" for table in TABLES],
            "complete": True,
            "trigger": {"interval_seconds": 1},
            "linger_seconds": 15,
        }

    # -- faults

    def kill(self, part: str) -> None:
        """Sends SIGKILL. The run is the one that is held, else the one that worked last."""
        if part == "run":
            pid = self.points.reached() or self.points.worker()
            if pid is not None and psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        else:
            getattr(self, part).kill()

    def restart(self, part: str) -> None:
        """Starts the part again. A run is not started by hand: that is what is tested."""
        if part != "run":
            getattr(self, part).start()

    def terminate(self, run_id: str) -> None:
        """Terminates a run as the button on the page of Dagster does."""
        query = "mutation T($id: String!) { terminateRun(runId: $id) { __typename ... on PythonError { message } } }"
        body = {"query": query, "variables": {"id": run_id}}
        answer = httpx.post(f"{self.dagster.url}/graphql", json=body, timeout=120).json()
        assert answer["data"]["terminateRun"]["__typename"] == "TerminateRunSuccess", answer

    # -- looking

    def connector(self) -> Connector:
        flight = f"grpc://127.0.0.1:{self.ports.flight}"
        return Connector(self.service.url, DESTINATION, flight_url=flight, timeout_seconds=10)

    def claims(self) -> list[ClaimStatus]:
        with self.connector() as connector:
            return list(connector.client_status().claims)

    def runs(self) -> list[dg.DagsterRun]:
        """The runs of the destination, newest first."""
        return list(self.instance.get_runs(dg.RunsFilter(tags={"cdc/destination": DESTINATION})))

    def run(self, run_id: str) -> dg.DagsterRun:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def errors(self, run_id: str) -> list[str]:
        """What Dagster shows of the errors of a run, causes included."""
        kinds = {
            dg.DagsterEventType.STEP_FAILURE,
            dg.DagsterEventType.STEP_UP_FOR_RETRY,
            dg.DagsterEventType.RUN_FAILURE,
        }
        told = []
        for entry in self.instance.all_logs(run_id, of_type=kinds):
            event = entry.dagster_event
            data = event.event_specific_data if event else None
            error = getattr(data, "error", None)
            told.append(f"{event.message if event else ''}\n{error.to_string() if error else ''}")
        return told

    def wait(self, what: str, seconds: float, look: Callable[[], _T | None]) -> _T:
        """The first answer that is neither None nor False; a SluiceError counts as no answer."""
        start = time.monotonic()
        while True:
            with suppress(SluiceError):
                if found := look():
                    return found
            waited = time.monotonic() - start
            assert waited < seconds, f"{what}: not within {seconds:.0f} s; see {self.state}"
            time.sleep(pause_after(waited))

    def drained(self) -> bool:
        """Whether nothing is claimed, waiting, or still to be read."""
        end = EntryPosition(*self.mysql.position())
        with self.connector() as connector:
            status, client = connector.status(), connector.client_status()
        position = status.position
        reached = position is not None and position >= end
        return reached and not client.waiting and not client.claims

    def differences(self, seconds: float) -> list[Verified]:
        """Waits until nothing is left to apply. Returns the tables in which source and lake differ."""
        tables = (*TABLES, *self.bank.made)
        rows = self.compared(tables, seconds)
        assert [row.table for row in rows] == [f"{DATABASE}.{table}" for table in tables]
        assert all(row.comparison and row.comparison.source_rows for row in rows)
        return [row for row in rows if row.differences]

    def compared(self, tables: Sequence[str], seconds: float) -> list[Verified]:
        """Waits until nothing is left to apply. Returns these tables, compared."""
        self.wait("drained", seconds, self.drained)
        with self.connector() as connector:
            epoch = connector.client_status().epoch
            reader = Reader(DESTINATION, connector.client_id, epoch, lambda: connector.client_status().cursor)
            source = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
            return list(verify(source, [(DATABASE, table) for table in tables], self.lake, reader, timeout_seconds=120))
