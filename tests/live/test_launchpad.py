"""The jobs by hand, launched by a user in Dagster's launchpad, on real MySQL, service, Spark and Dagster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dagster as dg
import psutil
import pytest
from deltalake import DeltaTable

from orchestration.names import Names
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.expectations.quarantine_table import QuarantineTable
from tests.support.launchpad import Launchpad, browser
from tests.support.operated import Operated, operated, until

pytestmark = [pytest.mark.browser, pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(2400)]

NAMES = Names("shop")


@pytest.fixture(scope="module")
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """Both tables are in the lake, with their first rows; of letters something is expected."""
    folder, tables = tmp_path_factory.mktemp("launchpad"), ("orders", "users", "letters")
    expected = [{"length": {"note": {"max": 5}}, "severity": "quarantine"}, {"not_null": "note", "severity": "block"}]
    with operated(mysql8, spark_remote, folder, *tables, expectations={"*.letters": expected}) as shop:
        shop.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO users VALUES (1, 'ann')")
        assert shop.differences("orders", "users") == []
        yield shop


@pytest.fixture
def launchpad(shop: Operated, tmp_path: Path) -> Iterator[Launchpad]:
    with browser(shop.dagster.url, tmp_path / "last.png") as launchpad:
        yield launchpad


def succeeded(shop: Operated, run_id: str) -> bool:
    return shop.run(run_id).status == dg.DagsterRunStatus.SUCCESS


@pytest.mark.in_turn
def test_a_table_is_reloaded(shop: Operated, launchpad: Launchpad) -> None:
    """The form shows the fields and nothing else. The lake is as the source then, also when it is launched twice, and
    the table's history has the reason."""
    table = f"{shop.database}.orders"
    DeltaTable(shop.lake.path(shop.database, "orders")).delete("id = 2")
    assert [(row["table"], row["missing"]) for row in shop.differences("orders", "users")] == [(table, 1)]

    launchpad.open("copy_shop")
    assert launchpad.fields() == [
        "ops:",
        "copy_shop_op:",
        "config:",
        "read_on: driver",
        "reason: ''",
        "tables: []",
    ]
    launchpad.fill("reason", "somebody deleted a row")
    launchpad.fill("tables", f"[{table}]")
    assert succeeded(shop, launchpad.launch())

    assert shop.differences("orders", "users") == []
    launchpad.history(NAMES.delta(table))
    launchpad.shows("somebody deleted a row", "delta_version")
    launchpad.open("copy_shop")
    assert succeeded(shop, launchpad.launch())
    assert shop.differences("orders", "users") == []


@pytest.mark.in_turn
def test_a_table_is_paused_and_resumed(shop: Operated, launchpad: Launchpad) -> None:
    """Its rows stay back while the other table goes on, and are there when it is resumed; twice changes nothing."""
    table = f"{shop.database}.orders"
    launchpad.open("pause_shop")
    launchpad.fill("reason", "a report is made")
    launchpad.fill("table", table)
    assert succeeded(shop, launchpad.launch())
    launchpad.history(NAMES.delta(table))
    launchpad.shows("a report is made", "pause")

    shop.sql("INSERT INTO orders VALUES (10, 'late')", "INSERT INTO users VALUES (10, 'eve')")
    assert [(row["table"], row["missing"]) for row in shop.differences("orders", "users")] == [(table, 1)]

    launchpad.open("resume_shop")
    launchpad.fill("reason", "the report is done")
    launchpad.fill("table", table)
    assert succeeded(shop, launchpad.launch())
    assert shop.differences("orders", "users") == []
    launchpad.open("resume_shop")
    assert succeeded(shop, launchpad.launch())
    launchpad.history(NAMES.delta(table))
    launchpad.shows("the report is done", "resume")
    assert shop.connector.client_status().stopped == ()


@pytest.mark.in_turn
def test_a_run_is_forked(shop: Operated) -> None:
    """Its process comes from one that has imported what runs need, as the code server's other child does."""
    tags = NAMES.run_tags

    def parent() -> psutil.Process | None:
        active = shop.instance.get_runs(dg.RunsFilter(tags=tags, statuses=[dg.DagsterRunStatus.STARTED]))
        pids = [int(run.tags["cdc/process"].split()[2]) for run in active if "cdc/process" in run.tags]
        with suppress(psutil.NoSuchProcess):
            return next((psutil.Process(pid).parent() for pid in pids), None)
        return None

    shop.sql("INSERT INTO users VALUES (15, 'kim')")
    assert "multiprocessing.forkserver" in " ".join(until("a run", parent).cmdline())
    assert shop.differences("orders", "users") == []


@pytest.mark.in_turn
def test_a_cursor_is_set_back(shop: Operated, launchpad: Launchpad) -> None:
    """The dry run changes nothing; the run for good begins a new epoch, the rows come again, and the lake is what the
    source is. Both are in the history of the store, with the reason and what they found."""
    journal, offset = shop.mysql.position()
    shop.sql("INSERT INTO orders VALUES (20, 'x')", "UPDATE orders SET note = 'y' WHERE id = 1")
    assert shop.differences("orders", "users") == []
    before = shop.connector.client_status()

    launchpad.open("reset_shop")
    launchpad.fill("reason", "to see what it means")
    launchpad.fill("position", f"{journal}:{offset}")
    assert succeeded(shop, launchpad.launch())
    launchpad.shows("Nothing was done")
    assert shop.connector.client_status().epoch == before.epoch

    launchpad.open("reset_shop")
    launchpad.fill("reason", "the lake was restored")
    launchpad.fill("dry_run", "false")
    assert succeeded(shop, launchpad.launch())
    assert shop.connector.client_status().epoch == before.epoch + 1
    assert shop.differences("orders", "users") == []
    assert told(shop, NAMES.store) == [
        ("reset", "the lake was restored", "done"),
        ("reset", "the lake was restored", "begun"),
        ("reset, dry run", "to see what it means", "done"),
        ("reset, dry run", "to see what it means", "begun"),
    ]


def told(shop: Operated, key: dg.AssetKey) -> list[tuple[str, str, str]]:
    """Action, reason and outcome of the orders in an asset's history, the latest first."""
    records = shop.instance.fetch_observations(key, limit=1000).records
    metadata = [record.asset_observation.metadata for record in records if record.asset_observation]
    wanted = [{name: value.value for name, value in one.items()} for one in metadata if "outcome" in one]
    return [(str(one["action"]), str(one["reason"]), str(one["outcome"])) for one in wanted]


@pytest.mark.in_turn
def test_rows_that_wait_are_requeued_or_dropped_and_a_block_is_accepted(shop: Operated, launchpad: Launchpad) -> None:
    """Two rows fail: one comes into the table with another value, the other is dropped. A row that blocks the table
    comes in when a person accepts it. The check and the table's history show what happened, and the service knows how
    many rows wait."""
    table, path = f"{shop.database}.letters", shop.lake.path(shop.database, "letters")
    quarantine = QuarantineTable(shop.lake, "shop", table)

    def has(rows: dict[int, str | None], waiting: int) -> bool:
        if not (quarantine.exists and DeltaTable.is_deltatable(path)) or quarantine.count() != waiting:
            return False
        found = DeltaTable(path).to_pyarrow_table()
        return dict(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True)) == rows

    shop.sql("INSERT INTO letters VALUES (1, 'short'), (2, 'much too long'), (3, 'far too long')")
    until("two rows wait", lambda: has({1: "short"}, 2))
    until("the service knows it", lambda: shop.connector.client_status().quarantined == {table: 2})
    launchpad.check(NAMES.delta(table), "length_note")
    launchpad.shows("2 of 3 rows fail", "quarantined")

    launchpad.open("requeue_shop")
    launchpad.fill("reason", "the writer agreed")
    launchpad.fill("keys", "[id=2]")
    launchpad.fill("table", table)
    launchpad.fill("values", "[note=cut]")
    assert succeeded(shop, launchpad.launch())
    assert has({1: "short", 2: "cut"}, 1)
    assert shop.connector.client_status().quarantined == {table: 1}
    launchpad.open("drop_shop")
    launchpad.fill("reason", "a duplicate")
    launchpad.fill("table", table)
    assert succeeded(shop, launchpad.launch())
    assert has({1: "short", 2: "cut"}, 0)
    assert shop.connector.client_status().quarantined == {}
    launchpad.check(NAMES.delta(table), "length_note")
    launchpad.shows("no row waits in the quarantine")

    shop.sql(
        "UPDATE letters SET note = 'cut' WHERE id = 2", "DELETE FROM letters WHERE id = 3"
    )  # no load fails by them
    shop.sql("INSERT INTO letters VALUES (4, NULL)", "INSERT INTO users VALUES (40, 'zoe')")
    (stop,) = until("the table is blocked", lambda: shop.connector.client_status().stopped)
    assert (stop.table, stop.kind) == (table, "blocked")
    assert "1 rows fail not_null_note (id=4)" in stop.reason
    assert "accept_shop" in stop.hint
    assert shop.differences("users") == []
    assert has({1: "short", 2: "cut"}, 0)
    launchpad.open("accept_shop")
    launchpad.fill("reason", "it is empty on purpose")
    launchpad.fill("table", table)
    assert succeeded(shop, launchpad.launch())
    launchpad.history(NAMES.delta(table))
    launchpad.shows("it is empty on purpose")
    assert shop.connector.client_status().stopped == ()
    launchpad.check(NAMES.delta(table), "not_null_note")
    launchpad.shows("accepted: it is empty on purpose")


@pytest.mark.in_turn
def test_wrong_orders_say_what_to_do(shop: Operated, launchpad: Launchpad) -> None:
    """A wrong type is reported before the launch, a wrong value by the run, by the field and with the remedy. Nothing
    is changed."""
    before = shop.connector.client_status()
    launchpad.open("pause_shop")
    launchpad.fill("table", "[1, 2]")
    launchpad.shows("root:ops:pause_shop_op:config:table")
    assert launchpad.button.is_disabled()
    launchpad.fill("table", f"{shop.database}.orders")
    assert not succeeded(shop, launchpad.launch())
    launchpad.shows("the reason is empty", "ops.pause_shop_op.config.reason")

    launchpad.open("pause_shop")
    launchpad.fill("reason", "a report is made")
    launchpad.fill("table", f"{shop.database}.order")
    assert not succeeded(shop, launchpad.launch())
    launchpad.shows(f"{shop.database}.order is not captured", f"Captured: {shop.database}.letters")

    launchpad.open("snapshot_shop")
    launchpad.fill("reason", "slowly")
    launchpad.fill("rows_per_second", "0")
    assert not succeeded(shop, launchpad.launch())
    launchpad.shows("rows_per_second is '0.0'", "Correct rows_per_second in the launchpad")
    after = shop.connector.client_status()
    assert (after.epoch, after.stopped) == (before.epoch, ())
