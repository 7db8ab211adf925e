"""Doors and client in front of the real service and a real MySQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import RangeGone, SluiceError
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from tests.support.door_double import opened
from tests.support.metrics import KEYS
from tests.support.reading import until_read

pytestmark = pytest.mark.integration


@dataclass
class Live:
    http: str
    connector: Connector
    mysql: MySqlServer
    database: str

    def execute(self, *statements: str) -> None:
        self.mysql.execute(*statements, database=self.database)


@pytest.fixture(scope="module")
def live(mysql8: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A service with one destination on MySQL and one that is configured wrongly."""
    with mysql8.database("doors") as database:
        conf = _conf(tmp_path_factory.mktemp("conf"), mysql8, database)
        service, _ = config.load_service(conf)
        server = CanalServer(service, conf)
        server.start()
        with (
            opened(HttpDoor(server, "127.0.0.1", 0)) as http,
            opened(FlightDoor(server, "127.0.0.1", 0)) as rows,
            Connector(http.url, "shop", flight_url=rows.url) as connector,
        ):
            _until(lambda: connector.status().state == "running")
            yield Live(http.url, connector, mysql8, database)
        server.stop()


def _conf(conf: Path, mysql: MySqlServer, database: str) -> Path:
    (conf / "canal.properties").write_text("canal.destinations = shop,broken\n")
    for name, lines in {
        "shop": [
            f"canal.instance.master.address = {mysql.host}:{mysql.port}",
            f"canal.instance.dbUsername = {mysql.user}",
            f"canal.instance.dbPassword = {mysql.password}",
            f"canal.instance.filter.regex = {database}\\\\..*",
        ],
        "broken": ["canal.instance.master.position = many"],
    }.items():
        (conf / name).mkdir()
        (conf / name / "instance.properties").write_text("\n".join(lines) + "\n")
    return conf


def _until(look: object, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _ack_all(live: Live) -> None:
    """Claims and acks all that the source has written."""
    until_read(live.connector.status, live.mysql)
    while live.connector.client_status().waiting:
        if claim := live.connector.get_without_ack(1000, owner="run-1", timeout_seconds=2):
            live.connector.ack(claim)


def test_rows_from_commit_to_ack(live: Live) -> None:
    """Committed rows come back as net rows, and the ack moves the cursor."""
    live.execute(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20), at DATETIME(3))",
        "INSERT INTO t VALUES (1,'a','2026-01-01 00:00:00.5'), (2,'b',NULL), (3,'c',NULL)",
        "UPDATE t SET name='B' WHERE id=2",
        "DELETE FROM t WHERE id=3",
    )
    table = f"{live.database}.t"
    seen: dict[int, tuple[int, str | None]] = {}
    until_read(live.connector.status, live.mysql)
    while live.connector.client_status().waiting:
        with live.connector.claim(1000, owner="run-1", timeout_seconds=2) as claim:
            if claim is None:
                continue
            for row in live.connector.changes(claim, table, splits=2).read_all().to_pylist():
                seen[row["id"]] = (row["_sluice_op"], row["name"])
            end = claim.end
    assert seen == {1: (1, "a"), 2: (1, "B"), 3: (2, None)}
    assert live.connector.client_status().reached.position.position == end.position


def test_an_ack_again_is_no_error(live: Live) -> None:
    """The same ack by the same owner gets the same answer."""
    live.execute("CREATE TABLE again (id INT PRIMARY KEY)")
    _ack_all(live)
    live.execute("INSERT INTO again VALUES (1)")
    claim = live.connector.get_without_ack(10, owner="run-1", timeout_seconds=60)
    assert claim is not None
    assert live.connector.ack(claim) == live.connector.ack(claim)
    with pytest.raises(RangeGone):
        live.connector.changes(claim, f"{live.database}.again")


def test_claim_waits_for_rows(live: Live) -> None:
    """A waiting claimer gets rows soon after their commit; its rollback gives them back."""
    live.execute("CREATE TABLE w (id INT PRIMARY KEY)")
    _ack_all(live)
    assert live.connector.get_without_ack(10, owner="run-1", timeout_seconds=1.5) is None
    live.execute("INSERT INTO w VALUES (1)")
    claim = live.connector.get_without_ack(10, owner="run-1", timeout_seconds=60)
    assert claim is not None
    assert live.connector.rollback(reason="test") == [claim.batch_id]
    with live.connector.claim(10, owner="run-2", timeout_seconds=60) as again:
        assert again is not None
        assert (again.start, again.end) == (claim.start, claim.end)


def test_pages_models_and_metrics_fit_the_service(live: Live) -> None:
    """Every answer fits its model, the page renders, and each promised number has a sample."""
    assert {d["destination"] for d in httpx.get(f"{live.http}/v1/destinations").json()} == {"shop", "broken"}
    assert live.connector.tables()
    page = httpx.get(live.http).text
    assert f"{live.mysql.host}:{live.mysql.port}" in page
    assert "Remedy:" in page
    text = httpx.get(f"{live.http}/metrics").text
    missing = [key for key in KEYS if f'{key}{{destination="shop"' not in text.replace("_total", "")]
    assert missing == []


def test_a_wrong_configuration_is_reported_and_affects_no_other(live: Live) -> None:
    """It is not ready, its calls are refused with the remedy, and the other destination goes on."""
    broken = Connector(live.http, "broken")
    assert "canal.instance.master.position" in broken.status().error.place
    with pytest.raises(SluiceError, match="position"):
        broken.get_without_ack(10, owner="run-1")
    ready = httpx.get(f"{live.http}/readyz")
    assert ready.status_code == 503
    assert [entry["destination"] for entry in ready.json()["not_ready"]] == ["broken"]
