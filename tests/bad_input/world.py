"""One service with two destinations: faults happen to `shop`, and `other` must not notice."""

from __future__ import annotations

import html
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
from kazoo.client import KazooClient

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import SluiceError
from cdc_core.server.server import CanalServer
from orchestration.loading import load_folder
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.session import Sessions
from tests.support.reading import until_read

Lines = dict[str, object]
CURSOR = "/otter/canal/destinations/{}/1001/cursor"


@dataclass
class World:
    """The parts of a test. `keys` are the lines of the instance.properties of each destination."""

    mysql: MySqlServer
    folder: Path
    databases: dict[str, str]
    keys: dict[str, Lines]
    zookeeper: KazooClient
    log: io.StringIO
    server: CanalServer
    doors: tuple[HttpDoor, FlightDoor]
    spark: str = "sc://127.0.0.1:1"
    token: str | None = None
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    # -- the source

    def sql(self, *statements: str, name: str = "shop") -> None:
        self.mysql.execute(*statements, database=self.databases[name])

    def configure(self, name: str = "shop", **changes: object) -> None:
        """Changes keys of a destination (`_` for `.`; None removes one). The service notices by itself."""
        self.keys[name] |= {_KEYS[key]: value for key, value in changes.items()}
        write_properties(self.folder / "conf" / name / "instance.properties", self.keys[name])

    # -- what is seen from outside

    def connector(self, name: str = "shop", token: str | None = None) -> Connector:
        http, flight = self.doors
        return Connector(http.url, name, flight_url=flight.url, token=self.token if token is None else token or None)

    def status(self, name: str = "shop") -> dict[str, Any]:
        return self.connector(name).status().to_dict()

    def page(self) -> str:
        """The status page's text as a browser shows it."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return html.unescape(httpx.get(self.doors[0].url, headers=headers).text)

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def cursor(self) -> bytes | None:
        """The cursor of `shop` as it stands in ZooKeeper, byte for byte."""
        path = CURSOR.format("shop")
        return bytes(self.zookeeper.get(path)[0]) if self.zookeeper.exists(path) else None

    def read(self, name: str = "shop") -> None:
        """Waits until a destination has read all that the source has written."""
        until_read(self.connector(name).status, self.mysql)

    def hold(self) -> Claim:
        """Claims what there is, so that the cursor has no reason to move."""
        claim = self.connector().get_without_ack(1000, owner="a test", timeout_seconds=60, lease_seconds=600)
        assert claim is not None, self.status()
        return claim

    def drain(self, name: str = "shop", rows: int = 1, table: str = "orders") -> list[tuple[Any, ...]]:
        """Rolls back what is held, then claims and acks until so many rows of the table were read."""
        connector = self.connector(name)
        found: list[tuple[Any, ...]] = []
        connector.rollback(reason="a test goes on")
        while len(found) < rows:
            with connector.claim(1000, owner="a test", timeout_seconds=60) as claim:
                assert claim is not None, (found, self.status(name))
                full = f"{self.databases[name]}.{table}"
                for batch in connector.changes(claim, full) if full in claim.table_names else ():
                    found += [tuple(row.values())[:-1] for row in batch.to_pylist()]
        return found

    def drain_fails(self, kind: str, table: str = "visits") -> None:
        """Reading the table fails with that error, and the claim goes back."""
        with pytest.raises(SluiceError) as caught:
            self.drain(table=table)
        assert type(caught.value).__name__ == kind
        assert self.connector().client_status().claims == ()

    # -- Dagster

    def write_defs(self, name: str = "shop", lake: Path | None = None, **attributes: object) -> None:
        service = {"http": self.doors[0].url, "flight": self.doors[1].url}
        given: dict[str, object] = {"destination": name, "lake": str(lake or self.lake), "service": service}
        given |= {"spark": self.spark, "tables": [f"{self.databases[name]}.orders"], "linger_seconds": 1}
        write_component(self.folder / "defs" / name / "defs.yaml", given | attributes)

    def run(self, name: str = "shop") -> dg.ExecuteInProcessResult:
        """Loads the definitions again, as the process of a run does, and drains what the service has read."""
        job = load_folder(self.folder / "defs").resolve_job_def(f"drain_{name}")
        return job.execute_in_process(instance=self.instance, raise_on_error=False)

    def tick(self, name: str = "shop") -> str:
        """What a tick of the backlog sensor says, with the lag check of the store."""
        definitions = load_folder(self.folder / "defs")
        sensor = definitions.resolve_sensor_def(f"cdc_{name}_backlog")
        resources = definitions.resources
        with dg.build_sensor_context(instance=self.instance, resources=resources) as context:
            result = sensor.evaluate_tick(context)
        events = [e for e in result.asset_events if isinstance(e, dg.AssetCheckEvaluation)]
        return "\n".join([result.skip_message or "", *(e.description or "" for e in events)])

    def failed(self, result: dg.ExecuteInProcessResult) -> str:
        """What Dagster shows of a failed run: description and metadata of the failure."""
        assert not result.success
        data = result.filter_events(lambda e: e.is_step_failure)[-1].step_failure_data.user_failure_data
        assert data is not None
        assert {"error", "message", "hint"} <= data.metadata.keys()
        return "\n".join([data.description or "", *(str(value.value) for value in data.metadata.values())])

    def rows(self, name: str = "shop", table: str = "orders", lake: Path | None = None) -> list[dict[str, Any]]:
        """The rows of the lake, in order."""
        path = (lake or self.lake) / self.databases[name] / table
        with Sessions(self.spark).take() as spark:
            found = spark.read.format("delta").load(str(path)).orderBy("id").collect()
        return [row.asDict() for row in found]

    # -- the common verdict

    def reports(self, kind: str, message: str, place: str, hint: str, *, dagster: bool = True) -> dict[str, Any]:
        """Waits for that error of `shop`, and finds it in the status, the log, the page and the tick of the sensor."""
        looks: list[dict[str, Any]] = []

        def told_of() -> bool:
            looks[:] = [self.status()["error"] or {}]
            return looks[0].get("error") == kind

        until(told_of, self.status)
        (error,) = looks
        assert message in error["message"], error
        assert place in error["place"], error
        assert hint in error["hint"], error
        parts = {key: error[key] for key in ("error", "message", "place", "hint")}
        line = parts | {"destination": "shop"}
        until(lambda: any(line.items() <= event.items() for event in self.logged()), self.logged)
        until(lambda: all(part in self.page() for part in parts.values()), self.page)
        if dagster:
            until(lambda: all(error[key] in self.tick() for key in ("message", "place", "hint")), self.tick)
        return error

    def other_goes_on(self) -> None:
        """A row that is written now comes out of the healthy destination."""
        key = time.monotonic_ns()
        self.sql(f"INSERT INTO orders VALUES ({key}, 'healthy')", name="other")
        assert self.drain("other") == [(key, "healthy")]
        status = self.status("other")
        assert (status["state"], status["error"]) == ("running", None)

    def healed(self) -> None:
        """The same server object runs again without an error, and without a restart."""

        def well() -> bool:
            status = self.status()  # one look: between two the destination may change
            return (status["state"], status["error"]) == ("running", None)

        until(well, self.status)
        until(lambda: "Remedy" not in self.page(), self.page)


MakeWorld = Callable[..., World]
_KEYS = {
    "address": "canal.instance.master.address",
    "journal": "canal.instance.master.journal.name",
    "position": "canal.instance.master.position",
    "user": "canal.instance.dbUsername",
    "password": "canal.instance.dbPassword",
    "black": "canal.instance.filter.black.regex",
    "zero_dates": "sluice.zero.dates",
    "buffer": "canal.instance.memory.buffer.size",
}


def write_properties(path: Path, lines: Lines) -> None:
    """Replaces the file as a whole, so that the service never reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{key} = {value}\n" for key, value in lines.items() if value is not None))
    fresh.replace(path)


def until(condition: Callable[[], Any], state: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, state()
        time.sleep(0.05)
