"""Tables and a destination paused and resumed by their jobs, at a real service and source; Spark is not asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.contract.claim import Claim
from orchestration.names import Names
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Pause, Resume
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.jobs import NOWHERE, commanded, executed
from tests.support.shop import Shop, opened_shop, until_running

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
        shop.skip()
        yield shop


def claimed(shop: Shop) -> Claim:
    return shop.claim(10, owner="run")


def copies(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> list[tuple[str, str]]:
    """A repair that reads nothing, and lifts the stop as the real one does. The tables that it was asked for."""
    asked: list[tuple[str, str]] = []

    def table(_: Loader, database: str, name: str, **__: Any) -> Copied:
        asked.append((database, name))
        (stop,) = shop.connector.client_status().stopped
        assert stop.passed is not None
        shop.connector.lift_stop(f"{database}.{name}", copied=stop.passed)
        schema = next(one for one in shop.connector.tables() if one.table == name)
        return Copied(schema, SnapshotPlace(stop.passed, stop.passed), 7, 3)

    monkeypatch.setattr(Loader, "copy", table)
    return asked


def test_a_command_pauses_and_resumes_as_the_job_does(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table with its reason, which is copied where changes passed; and the destination. Each prints what it did."""
    url, conf, table = shop.connector.http_url, tmp_path / "conf", f"{shop.database}.t"
    asked = copies(monkeypatch, shop)

    assert commanded(Pause(table=table), url, conf, reason="a report is made") == 0
    (stop,) = shop.connector.client_status().stopped
    assert (stop.table, stop.reason) == (table, "paused: a report is made")
    assert f"sluice resume shop {table}" in stop.hint
    shop.execute("INSERT INTO t VALUES (1)")
    shop.connector.ack(claimed(shop))
    assert commanded(Resume(table=table), url, conf) == 0
    assert asked == [(shop.database, "t")]
    assert shop.connector.client_status().stopped == ()
    paused, resumed = map(json.loads, capsys.readouterr().out.splitlines())
    assert (paused["table"], paused["changed"]) == (table, True)
    assert (resumed["table"], resumed["copied"], resumed["rows"]) == (table, True, 7)

    assert commanded(Pause(table="*"), url, conf, reason="the source moves") == 0
    assert shop.connector.status().state == "stopped"
    assert commanded(Resume(table="*"), url, conf) == 0
    until_running(shop.connector)


def test_a_paused_table_that_missed_nothing_goes_on(shop: Shop, tmp_path: Path) -> None:
    """Pausing stops it with the reason, twice changes nothing; resuming lifts the stop without a copy, and twice does
    nothing. Each leaves its trace with the table."""
    url, conf, table = shop.connector.http_url, tmp_path / "conf", f"{shop.database}.t"
    order = {"table": table, "reason": "the report is wrong"}

    first = executed(Pause, url, conf, {"user": "ann"}, **order)
    (stop,) = shop.connector.client_status().stopped
    assert first.success
    assert (stop.table, stop.reason, stop.passed) == (table, "paused: the report is wrong", None)
    assert "resume_shop" in stop.hint
    shop.execute("INSERT INTO u VALUES (1)")
    claim = claimed(shop)
    assert claim.stopped == (table,)
    shop.connector.ack(claim)
    second = executed(Pause, url, conf, table=table, reason="once more")
    assert shop.connector.client_status().stopped == (stop,)
    resumed, again = (executed(Resume, url, conf, **order) for _ in range(2))

    assert shop.connector.client_status().stopped == ()
    key = Names("shop").delta(table).to_user_string()
    (_, begun), (asset, done) = first.history
    assert (asset, done["action"], done["outcome"], done["by"]) == (key, "pause", "done", "ann")
    assert (done["reason"], done["changed"], done["run_id"]) == ("the report is wrong", True, first.run_id)
    assert begun["outcome"] == "begun"
    assert (second.history[1][1]["changed"], second.history[1][1]["stopped"]) == (False, stop.reason)
    assert [one.history[1][1]["copied"] for one in (resumed, again)] == [False, False]


def test_a_paused_table_that_missed_changes_is_copied(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service refuses to lift its stop, so resuming copies it first. A claim with its changes is waited for."""
    url, conf, table = shop.connector.http_url, tmp_path / "conf", f"{shop.database}.t"
    asked = copies(monkeypatch, shop)
    assert executed(Pause, url, conf, table=table, reason="why").success
    shop.execute("INSERT INTO t VALUES (1)")
    claim = claimed(shop)
    early = executed(Resume, url, conf, table=table, reason="go on")
    assert not early.success
    assert "its owner leaves them out" in early.failure
    assert early.history[1][1]["outcome"] == "failed"
    assert asked == []
    shop.connector.ack(claim)

    resumed = executed(Resume, url, conf, table=table, reason="go on")

    assert resumed.success
    assert asked == [(shop.database, "t")]
    assert shop.connector.client_status().stopped == ()
    _, (_, done), (_, materialized) = resumed.history
    assert (done["outcome"], done["rows"], materialized["copied"]) == ("done", 7, True)
    assert "outcome" not in materialized


def test_a_stop_that_a_snapshot_lifts_is_left_to_it(shop: Shop, tmp_path: Path) -> None:
    """A table whose first snapshot is read is not shown half."""
    table = f"{shop.database}.t"
    shop.connector.snapshots.open(table, owner="reader", first=True)

    refused = executed(Resume, shop.connector.http_url, tmp_path / "conf", table=table, reason="go on")

    assert not refused.success
    assert "a snapshot of the table is open" in refused.failure
    assert [stop.table for stop in shop.connector.client_status().stopped] == [table]


def test_a_destination_is_paused_and_resumed(shop: Shop, tmp_path: Path) -> None:
    """It reads nothing until then, its rows come afterwards; the store's history has it. Twice changes nothing."""
    url, conf = shop.connector.http_url, tmp_path / "conf"

    paused = [executed(Pause, url, conf, table="*", reason="maintenance") for _ in range(2)]
    assert all(one.success for one in paused)
    assert shop.connector.status().note == "stopped by an operator"
    shop.execute("INSERT INTO t VALUES (1)")
    resumed = [executed(Resume, url, conf, table="*", reason="done") for _ in range(2)]
    assert all(one.success for one in resumed)

    until_running(shop.connector)
    assert claimed(shop).rows == 1
    asset, done = paused[0].history[1]
    assert (asset, done["outcome"], done["servers"]) == ("cdc/shop/store", "done", [url])


@pytest.mark.parametrize("job", [Pause, Resume])
def test_wrong_orders_are_refused(shop: Shop, tmp_path: Path, job: Any) -> None:
    """A table that is not captured, a name that is none, and a reason without words; nothing is stopped."""
    url, conf = shop.connector.http_url, tmp_path / "conf"

    unknown = executed(job, url, conf, table=f"{shop.database}.nothing", reason="why")
    nameless = executed(job, url, conf, table="orders", reason="why")
    silent = executed(job, url, conf, table=f"{shop.database}.t", reason="  ")

    assert "is not captured" in unknown.failure
    assert f"{shop.database}.t" in unknown.failure
    assert "orders" in nameless.failure
    assert "the reason is empty" in silent.failure
    assert shop.connector.client_status().stopped == ()
