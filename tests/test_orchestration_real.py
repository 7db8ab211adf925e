"""A destination's assets over the real things: MySQL, the capture service, Spark Connect, Delta; Dagster in process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_core.client.connector import Connector
from orchestration import assets
from orchestration.loading import load_folder
from orchestration.stack.demo_files import write_component
from orchestration.stack.mysql import MySqlServer
from orchestration.stack.service import Service
from spark_jobs.session import Sessions
from tests.conftest import free_port

pytestmark = pytest.mark.integration


class Shop:
    """One destination with two tables, its service running."""

    def __init__(self, mysql: MySqlServer, database: str, folder: Path, ports: tuple[int, int], spark: str) -> None:
        self.mysql = mysql
        self.database = database
        self.spark = spark
        self.lake = folder / "lake"
        self.instance = dg.DagsterInstance.ephemeral()
        http_port, flight_port = ports
        self.connector = Connector(
            f"http://127.0.0.1:{http_port}", "shop", flight_url=f"grpc://127.0.0.1:{flight_port}"
        )
        service = {"http": self.connector.http_url, "flight": self.connector.flight_url}
        attributes = {"destination": "shop", "lake": str(self.lake), "service": service, "spark": spark}
        limits = {"complete": True, "linger_seconds": 2}
        write_component(folder / "defs" / "shop" / "defs.yaml", attributes | limits)
        self.folder = folder / "defs"

    def sql(self, *statements: str) -> None:
        with self.mysql.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {self.database}")
            for statement in statements:
                cursor.execute(statement)

    def run(self, job: str = "drain_shop", **config: Any) -> dg.ExecuteInProcessResult:
        """Loads the definitions anew, as a run's process does, and executes one job."""
        job_def = load_folder(self.folder).resolve_job_def(job)
        return job_def.execute_in_process(instance=self.instance, run_config=config or None, raise_on_error=False)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """What the lake has, in order."""
        with Sessions(self.spark).take() as spark:
            found = spark.read.format("delta").load(str(self.lake / self.database / table)).collect()
        return sorted(tuple(row) for row in found)


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    http_port, flight_port = free_port(), free_port()
    with mysql8.database() as database:
        journal, offset = mysql8.position()
        conf = {
            "canal.properties": f"canal.ip=127.0.0.1\ncanal.metrics.pull.port={http_port}\n"
            f"sluice.flight.port={flight_port}\ncanal.destinations=shop\n",
            "shop/instance.properties": f"canal.instance.master.address=127.0.0.1:{mysql8.port}\n"
            f"canal.instance.master.journal.name={journal}\ncanal.instance.master.position={offset}\n"
            f"canal.instance.dbUsername={mysql8.user}\ncanal.instance.dbPassword={mysql8.password}\n"
            f"canal.instance.filter.regex={database}\\\\..*\n",
        }
        for name, text in conf.items():
            (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "conf" / name).write_text(text)
        world = Shop(mysql8, database, tmp_path, (http_port, flight_port), spark_remote)
        world.sql(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, note VARCHAR(40) COMMENT 'free text', price DECIMAL(10,2))",
            "CREATE TABLE log (line VARCHAR(20), n INT)",
            "INSERT INTO orders VALUES (1, 'a', 1.50), (2, 'b', NULL), (3, 'c', 3)",
            "INSERT INTO log VALUES ('x', 1), ('x', 1), ('y', 2)",
        )
        service = Service(tmp_path / "conf", tmp_path, http_port=http_port)
        service.start()
        try:
            yield world
        finally:
            service.stop()


def verdicts(result: dg.ExecuteInProcessResult) -> list[str]:
    """The checks that are red."""
    return [f"{e.asset_key.path[-1]} {e.check_name}" for e in result.get_asset_check_evaluations() if not e.passed]


def told(result: dg.ExecuteInProcessResult, table: str) -> dict[str, Any]:
    """The metadata of the last materialization of a table."""
    found = [e.step_materialization_data.materialization for e in result.all_events if e.is_step_materialization]
    last = [one for one in found if one.asset_key.path[-1] == table][-1]
    return {key: value.value for key, value in last.metadata.items()}


def test_a_destination_end_to_end(shop: Shop) -> None:
    """First rows, changes of every kind, an empty run, a table that stops while the other goes on."""
    first = shop.run()
    assert first.success
    assert verdicts(first) == []
    assert [row[:2] for row in shop.rows("orders")] == [(1, "a"), (2, "b"), (3, "c")]
    assert shop.rows("log") == [("x", 1), ("x", 1), ("y", 2)]

    shop.sql("BEGIN", "UPDATE orders SET id = 9 WHERE id = 3", "DELETE FROM orders WHERE id = 1", "COMMIT")
    shop.sql("INSERT INTO orders VALUES (10, 'd', 4)", "DELETE FROM log WHERE n = 1 LIMIT 1")
    second = shop.run()
    assert second.success
    assert verdicts(second) == []
    facts = told(second, "orders")
    assert (facts["inserts"], facts["updates"], facts["deletes"], facts["replayed"]) == (1, 1, 1, False)
    assert facts["lag_seconds_max"] < 120
    assert [row[:2] for row in shop.rows("orders")] == [(2, "b"), (9, "c"), (10, "d")]
    assert shop.rows("log") == [("x", 1), ("y", 2)]

    empty = shop.run()
    assert empty.success
    assert len(empty.get_asset_check_evaluations()) == 8

    shop.sql(
        "ALTER TABLE orders DROP COLUMN price", "INSERT INTO orders VALUES (11, 'e')", "INSERT INTO log VALUES ('z', 3)"
    )
    stopping = shop.run()
    assert stopping.success
    assert verdicts(stopping) == ["orders takes_changes"]
    assert shop.rows("log") == [("x", 1), ("y", 2), ("z", 3)]
    assert [stop["table"] for stop in shop.connector.client_state()["stopped"]] == [f"{shop.database}.orders"]
    assert verdicts(shop.run()) == ["orders takes_changes"]


def test_a_claim_left_over_is_given_back_by_hand(shop: Shop) -> None:
    """The rollback job frees what a dead claimer holds; the next run applies it once."""
    claim = shop.connector.get_without_ack(100, owner="somebody", timeout_seconds=20, lease_seconds=600)
    assert claim is not None
    blocked = shop.run()
    assert blocked.success
    assert not (shop.lake / shop.database / "orders").exists()

    rolled_back = shop.run("rollback_shop")

    assert rolled_back.success
    assert shop.connector.client_state()["claims"] == []
    assert shop.run().success
    assert shop.rows("log") == [("x", 1), ("x", 1), ("y", 2)]


def test_a_spark_that_is_away_fails_with_its_remedy(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch goes back, the cursor does not move, Dagster shows message, place and hint."""
    monkeypatch.setattr(assets, "RETRY_SECONDS", 0.01)
    file = shop.folder / "shop" / "defs.yaml"
    file.write_text(file.read_text().replace(shop.spark, f"sc://127.0.0.1:{free_port()}"))
    before = shop.connector.client_state()

    failed = shop.run()

    after = shop.connector.client_state()
    assert not failed.success
    assert (after["ack"], after["claims"]) == (before["ack"], [])
    assert after["rollbacks"] == before["rollbacks"] + 3
    failure = failed.failure_data_for_node("cdc_shop")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert set(failure.user_failure_data.metadata) == {"error", "message", "place", "hint"}
