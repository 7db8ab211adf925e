"""The assets of a destination on MySQL, the capture service, Spark Connect and Delta; Dagster runs in process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from cdc_core.client.connector import Connector
from orchestration.jobs import routine
from orchestration.loading import load_folder
from orchestration.source import CONF_VARIABLE
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.service import Service
from spark_jobs.session import Sessions
from tests.support.reading import until_read
from tests.support.servers import free_port

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
        """Loads the definitions again, as the process of a run does, and executes one job. The service has read all
        that was written before."""
        until_read(self.connector.status, self.mysql)
        job_def = load_folder(self.folder).resolve_job_def(job)
        return job_def.execute_in_process(instance=self.instance, run_config=config or None, raise_on_error=False)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of the lake, in order."""
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
            f"sluice.flight.port={flight_port}\ncanal.withoutNetty=true\ncanal.destinations=shop\n",
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
    """The asset checks that failed in this run: those whose verdict changed."""
    return [f"{e.asset_key.path[-1]} {e.check_name}" for e in result.get_asset_check_evaluations() if not e.passed]


def red(shop: Shop) -> list[str]:
    """The asset checks that are red in Dagster."""
    keys = list(load_folder(shop.folder).resolve_asset_graph().asset_check_keys)
    found = shop.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    failed = AssetCheckExecutionRecordStatus.FAILED
    return sorted(f"{key.asset_key.path[-1]} {key.name}" for key, one in found.items() if one.status == failed)


def metadata_of(result: dg.ExecuteInProcessResult, table: str) -> dict[str, Any]:
    """The metadata of the last materialization of a table."""
    found = [e.step_materialization_data.materialization for e in result.all_events if e.is_step_materialization]
    last = [one for one in found if one.asset_key.path[-1] == table][-1]
    return {key: value.value for key, value in last.metadata.items()}


@pytest.mark.in_turn
def test_a_destination_end_to_end(shop: Shop) -> None:
    """First rows, changes of every kind, and an empty run."""
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
    facts = metadata_of(second, "orders")
    assert (facts["inserts"], facts["updates"], facts["deletes"], facts["replayed"]) == (1, 1, 1, False)
    assert facts["lag_seconds_max"] < 1800
    seconds = facts["sluice/seconds"]
    assert list(seconds) == ["network", "decode", "store", "claim", "plan", "write", "ack"]
    assert sum(seconds.values()) - seconds["ack"] == pytest.approx(facts["lag_seconds_max"], abs=0.01)
    assert [row[:2] for row in shop.rows("orders")] == [(2, "b"), (9, "c"), (10, "d")]
    assert shop.rows("log") == [("x", 1), ("y", 2)]

    empty = shop.run()
    assert empty.success
    assert empty.get_asset_check_evaluations() == []


@pytest.mark.in_turn
@pytest.mark.full
def test_a_table_that_others_wrote_holds_up_no_other(shop: Shop) -> None:
    """A missing row is mended and stays a warning of its table; a key that is there twice stops it. Every run acks."""
    assert shop.run().success
    orders = str(shop.lake / shop.database / "orders")
    DeltaTable(orders).delete("id = 2")
    shop.sql("UPDATE orders SET note = 'mended' WHERE id = 2", "INSERT INTO log VALUES ('z', 3)")
    mended = shop.run()
    assert mended.success
    assert set(verdicts(mended)) == {"orders rows_add_up"}
    shown = [e for e in mended.get_asset_check_evaluations() if not e.passed][-1]
    assert shown.severity == dg.AssetCheckSeverity.WARN
    assert (shown.metadata["changes_missed"].value, shown.metadata["keys"].value) == (1, ["id=2"])
    assert [row[:2] for row in shop.rows("orders")] == [(1, "a"), (2, "mended"), (3, "c")]
    assert shop.run().success
    assert red(shop) == ["orders rows_add_up"]

    twice = QueryBuilder().register("t", DeltaTable(orders)).execute("SELECT * FROM t WHERE id = 3").read_all()
    write_deltalake(orders, twice, mode="append")
    shop.sql("UPDATE orders SET note = 'd' WHERE id = 3", "INSERT INTO log VALUES ('z', 4)")
    stopping = shop.run()
    assert stopping.success
    assert set(verdicts(stopping)) == {"orders key_unique", "orders rows_add_up", "orders takes_changes"}
    assert red(shop) == ["orders key_unique", "orders rows_add_up", "orders takes_changes"]
    assert shop.rows("log") == [("x", 1), ("x", 1), ("y", 2), ("z", 3), ("z", 4)]
    (stop,) = shop.connector.client_status().stopped
    assert stop.table == f"{shop.database}.orders"
    assert "1 keys matched 2 rows" in stop.reason
    assert f"`sluice copy shop {shop.database}.orders`" in stop.hint
    assert shop.run().success
    assert "orders takes_changes" in red(shop)


@pytest.mark.in_turn
def test_the_rollback_job_frees_a_claim_left_over(shop: Shop) -> None:
    """The rollback job frees what a dead claimer holds, and the next run applies it once."""
    until_read(shop.connector.status, shop.mysql)
    claim = shop.connector.get_without_ack(100, owner="somebody", timeout_seconds=60, lease_seconds=600)
    assert claim is not None
    blocked = shop.run()
    assert blocked.success
    assert not (shop.lake / shop.database / "orders").exists()

    reason = {"config": {"reason": "its claimer is gone"}}
    rolled_back = shop.run("rollback_shop", ops={"rollback_shop_op": reason})

    assert rolled_back.success
    assert shop.connector.client_status().claims == ()
    assert shop.run().success
    assert shop.rows("log") == [("x", 1), ("x", 1), ("y", 2)]


@pytest.mark.in_turn
@pytest.mark.full
def test_a_paused_table_goes_on_where_the_source_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays as it was while the others go on; what it missed comes by the copy that resumes it, and later changes
    come after that. A table that others damaged is reloaded in the same way."""
    monkeypatch.setenv(CONF_VARIABLE, str(shop.folder.parent / "conf"))
    orders, log = f"{shop.database}.orders", f"{shop.database}.log"

    def order(job: str, **config: Any) -> dg.ExecuteInProcessResult:
        return shop.run(job, ops={f"{job}_op": {"config": {"reason": "a report is made", **config}}})

    assert shop.run().success
    assert order("pause_shop", table=orders).success
    shop.sql("UPDATE orders SET note = 'z' WHERE id = 1", "INSERT INTO log VALUES ('z', 3)")
    paused = shop.run()
    assert verdicts(paused) == ["orders takes_changes"]
    assert [row[:2] for row in shop.rows("orders")] == [(1, "a"), (2, "b"), (3, "c")]
    assert ("z", 3) in shop.rows("log")

    assert order("resume_shop", table=orders).success
    DeltaTable(str(shop.lake / shop.database / "log")).delete("n = 2")
    assert order("copy_shop", tables=[log]).success
    shop.sql("DELETE FROM orders WHERE id = 2", "DELETE FROM log WHERE n = 2")
    assert verdicts(shop.run()) == []
    assert [row[:2] for row in shop.rows("orders")] == [(1, "z"), (3, "c")]
    assert shop.rows("log") == [("x", 1), ("x", 1), ("z", 3)]


@pytest.mark.in_turn
@pytest.mark.full
def test_a_spark_that_is_away_fails_with_its_remedy(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch goes back, the cursor stays, and Dagster shows message, place and hint."""
    monkeypatch.setattr(routine, "RETRY_SECONDS", 0.01)
    file = shop.folder / "shop" / "defs.yaml"
    file.write_text(file.read_text().replace(shop.spark, f"sc://127.0.0.1:{free_port()}"))
    before = shop.connector.client_status()

    failed = shop.run()

    after = shop.connector.client_status()
    assert not failed.success
    assert (after.ack, after.claims) == (before.ack, ())
    assert after.rollbacks == before.rollbacks + 3
    failure = failed.failure_data_for_node("drain_shop_op")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert set(failure.user_failure_data.metadata) == {"error", "message", "place", "hint"}
