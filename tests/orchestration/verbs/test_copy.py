"""The command and the job that reload a table, without a source: what they report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_core.doors.http import HttpDoor
from cdc_core.errors import SourceError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from orchestration.verbs.orders import Copy
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.door_double import Destination, Server, opened
from tests.support.jobs import commanded, executed, write_conf

AT = SnapshotPlace(EntryPosition("bin.000001", 400), EntryPosition("bin.000001", 400))
COPIED = Copied(TableSchema("shop", "orders", (Column("id", 3, 0),), ("id",)), AT, 7, 3)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return write_conf(tmp_path / "conf")


def repair(monkeypatch: pytest.MonkeyPatch, found: Copied | NoSuchTable) -> list[tuple[str, str]]:
    """What is copied is noted and gives `found`."""
    asked: list[tuple[str, str]] = []

    def table(_: Loader, database: str, name: str, **options: Any) -> Copied | NoSuchTable:
        options["report"](Read(f"{database}.{name}", 7, 1))
        asked.append((database, name))
        return found

    monkeypatch.setattr(Loader, "copy", table)
    return asked


@pytest.mark.parametrize(
    ("found", "code", "told"),
    [
        (COPIED, 0, {"table": "shop.orders", "copied": True, "rows": 7, "delta_version": 3}),
        (NoSuchTable("shop", "orders", AT), 1, {"table": "shop.orders", "copied": False}),
    ],
)
def test_the_command_reports_each_table(
    conf: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Copied | NoSuchTable,
    code: int,
    told: dict[str, Any],
) -> None:
    """A JSON line for each; exit code 1 when the source has no such table."""
    asked = repair(monkeypatch, found)
    assert commanded(Copy(tables=["shop.orders"]), "http://127.0.0.1:1", conf) == code

    position = {"position": "bin.000001:400", "high": "bin.000001:400"}
    assert json.loads(capsys.readouterr().out) == told | position
    assert asked == [("shop", "orders")]


@pytest.mark.parametrize(("asked", "read_on"), [({}, "driver"), ({"read_on": "executors"}, "executors")])
def test_this_process_reads_unless_executors_are_asked(
    conf: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str], read_on: str
) -> None:
    """Executors must reach the source and the lake, which nobody has promised; also where Spark is a cluster."""
    manners: list[Manner] = []
    monkeypatch.setattr(Loader, "copy", lambda loader, *_, **__: manners.append(loader.manner) or COPIED)
    assert commanded(Copy(tables=["shop.orders"], **asked), "http://127.0.0.1:1", conf) == 0
    assert manners == [Manner(read_on=read_on)]


def test_the_job_reloads_each_table(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, with its trace and a materialization that says rows and position; the summary is the run's."""
    asked = repair(monkeypatch, COPIED)
    tables = ["shop.orders", "shop.orders", "shop.users"]
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        done = executed(Copy, door.url, conf, tables=tables, reason="damaged by hand")

    assert done.success
    assert asked == [("shop", "orders"), ("shop", "users")]
    assert [(asset, told.get("outcome")) for asset, told in done.history] == [
        (f"delta/shop/shop/{table}", outcome) for table in ("orders", "users") for outcome in ("begun", "done", None)
    ]
    materialized = done.history[2][1]
    assert (materialized["rows"], materialized["position"], materialized["copied"]) == (7, "bin.000001:400", True)
    assert (materialized["action"], materialized["reason"]) == ("copy", "damaged by hand")
    assert done.summary["done"].value == 2
    assert done.summary["tables"].value["shop.users"] == "7 rows as of bin.000001:400"


def test_a_table_that_fails_stops_no_other(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it fails with. The run fails in the end, and says which ones it was and what came of all."""
    found: dict[str, Any] = {
        "orders": NoSuchTable("shop", "orders", AT),
        "users": SourceError("no rights", place="shop.users", hint="GRANT SELECT"),
        "odd": RuntimeError("a surprise"),
        "last": COPIED,
    }

    def table(_: Loader, database: str, name: str, **__: Any) -> Any:
        if isinstance(found[name], Exception):
            raise found[name]
        return found[name]

    monkeypatch.setattr(Loader, "copy", table)
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        names = [f"shop.{name}" for name in found]
        done = executed(Copy, door.url, conf, tables=names, reason="all are wrong")

    assert not done.success
    first, *messages = done.failure.splitlines()
    assert first == "3 of 4 tables failed: shop.orders, shop.users, shop.odd"
    assert [line.partition(": failed: ")[0] for line in messages] == ["shop.orders", "shop.users", "shop.odd"]
    assert (done.summary["done"].value, done.summary["failed"].value) == (1, 3)
    told = done.summary["tables"].value
    assert "the source has no table" in told["shop.orders"]
    assert "GRANT SELECT" in told["shop.users"]
    assert told["shop.odd"] == "failed: RuntimeError: a surprise"
    outcomes = [(asset.rpartition("/")[2], one["outcome"]) for asset, one in done.history if "outcome" in one]
    assert [name for name, outcome in outcomes if outcome == "failed"] == ["orders", "users", "odd"]
    assert ("last", "done") in outcomes


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"tables": [], "reason": "why"}, "tables is '[]': list should have at least 1 item"),
        ({"tables": ["shop.orders", "orders"], "reason": "why"}, "orders"),
        ({"tables": ["shop.orders"], "reason": " "}, "the reason is empty"),
    ],
)
def test_a_wrong_order_copies_nothing(
    conf: Path, monkeypatch: pytest.MonkeyPatch, order: dict[str, Any], told: str
) -> None:
    """No table, a name that is none, and a reason without words."""
    asked = repair(monkeypatch, COPIED)

    refused = executed(Copy, "http://127.0.0.1:1", conf, **order)

    assert not refused.success
    assert told in refused.failure
    assert asked == []
