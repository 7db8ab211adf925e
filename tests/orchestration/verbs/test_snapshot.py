"""The command and the job that take snapshots, without a source: tables one after the other, and what they report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cdc_core.client.connector import Connector
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError, SourceError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from orchestration.internals import SENSOR_NAME_TAG
from orchestration.verbs.orders import Snapshot
from orchestration.verbs.snapshot import manner_of, progress
from spark_jobs.lake.consent import PROPOSAL
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.load.several import SoFar
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.door_double import Destination, Server, opened
from tests.support.jobs import commanded, executed, write_conf

AT = SnapshotPlace(EntryPosition("bin.000001", 400), EntryPosition("bin.000001", 900))
REFUSED = SourceError("the rows may not be read", place="db:3306 shop.secret", hint="GRANT SELECT.")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return write_conf(tmp_path / "conf")


@pytest.fixture
def manners(monkeypatch: pytest.MonkeyPatch) -> list[Manner]:
    """How tables were read: `secret` may not be, `gone` is not there, all others have seven rows."""
    manners: list[Manner] = []

    def table(self: Loader, database: str, name: str, **options: Any) -> Copied | NoSuchTable:
        manners.append(self.manner)
        options["report"](Read(f"{database}.{name}", 7, 2, 9))
        if name == "secret":
            raise REFUSED
        schema = TableSchema(database, name, (Column("id", 3, 0),), ("id",))
        return NoSuchTable(database, name, AT) if name == "gone" else Copied(schema, AT, 7, 3)

    monkeypatch.setattr(Loader, "table", table)
    return manners


def test_one_table_that_fails_does_not_stop_the_others(
    conf: Path, manners: list[Manner], capsys: pytest.CaptureFixture[str]
) -> None:
    """A JSON line for each; exit code 1."""
    tables = ("shop.secret", "shop.gone", "shop.orders")
    order = Snapshot(tables=tables, rows_per_chunk=1_000, rows_per_second=500, connections=2)

    assert commanded(order, "http://127.0.0.1:1", conf) == 1

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["table"] for line in lines] == list(tables)
    assert [line["copied"] for line in lines] == [False, False, True]
    assert (lines[0]["message"], lines[0]["hint"]) == (REFUSED.message, REFUSED.hint)
    assert (lines[2]["rows"], lines[2]["position"], lines[2]["high"]) == (7, "bin.000001:400", "bin.000001:900")
    assert manners == [Manner(1_000, Limits(500, 2))] * 3


def test_all_captured_tables_without_a_name(
    conf: Path, manners: list[Manner], capsys: pytest.CaptureFixture[str]
) -> None:
    """The service says which; without an open snapshot there is nothing to cancel."""
    destination = Destination()
    destination.put(1)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        assert commanded(Snapshot(), door.url, conf) == 0
        captured = [json.loads(line)["table"] for line in capsys.readouterr().out.splitlines()]
        assert captured
        assert commanded(Snapshot(cancel=True), door.url, conf) == 0
        cancelled = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert cancelled == [{"table": table, "cancelled": False} for table in captured]


def test_progress_says_how_far_all_tables_are() -> None:
    """With the time left, of which each table takes some and its rows the rest. The rate of a table that is read by
    itself counts the rows of this run, not those that another had staged."""
    assert progress(SoFar(0, 150, 0, 15_000), 1.0) == "0 of 150 tables, 0 rows"
    assert progress(SoFar(50, 150, 5_000, 15_000), 5.0) == "50 of 150 tables, 5,000 rows, about 0:00:10 left"
    alone = SoFar(3, 4, 60_000, 240_000, Read("s.t", 3_000, 3, 10_000, before=1_000))
    assert progress(alone, 4.0) == (
        "3 of 4 tables, 60,000 rows, about 0:00:07 left; s.t: 3,000 of about 10,000 rows in 3 chunks, 500 rows/s"
    )


def test_the_job_materializes_each_table(conf: Path, manners: list[Manner], monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows, position and rate; one that fails is reported at the end, and fails the run."""
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        done = executed(
            Snapshot,
            door.url,
            conf,
            tables=["shop.secret", "shop.orders"],
            rows_per_second=100.0,
            reason="test",
            replica="replica:3307",
            read_on="driver",
        )

    ((asset, materialized),) = [(asset, facts) for asset, facts in done.history if "outcome" not in facts]
    assert asset == "delta/shop/shop/orders"
    assert {"rows", "position", "high", "seconds", "rows_per_second", "reason"} <= materialized.keys()
    assert not done.success
    assert "shop.secret: failed: the rows may not be read" in done.failure
    assert [(asset, facts["outcome"]) for asset, facts in done.history if "outcome" in facts] == [
        (f"delta/shop/shop/{table}", outcome)
        for table, end in (("secret", "failed"), ("orders", "done"))
        for outcome in ("begun", end)
    ]
    assert manners[0] == Manner(250_000, Limits(100.0, 4), ("replica", 3307), "driver")


def test_limits_that_let_nothing_through_are_refused(conf: Path) -> None:
    """By the field's name and its bound; and a replica that is no address, or a reader that is none."""
    for field, value in (("rows_per_second", 0.0), ("connections", 0), ("rows_per_chunk", 0)):
        done = executed(Snapshot, "http://127.0.0.1:1", conf, reason="test", **{field: value})
        assert f"{field} is '0" in done.failure
        assert "input should be greater than or equal to 1" in done.failure
    for field, value, words in (
        *(("replica", address, "not an address") for address in ("replica", ":3306", "replica:x")),
        ("read_on", "cluster", "must be driver or executors"),
    ):
        with pytest.raises(ValidationError, match=words):
            Snapshot(**{field: value})
    assert manner_of(Snapshot()).replica is None
    with pytest.raises(ConfigError, match="not 'cluster'"):
        Manner(read_on="cluster")


def test_only_a_persons_job_is_the_consent(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what waited by then. A sensor's run asks nobody."""
    found: list[Mapping[str, str] | None] = []

    def table(self: Loader, database: str, name: str, **_: Any) -> Copied:
        found.append(self.consents)
        return Copied(TableSchema(database, name, (Column("id", 3, 0),), ("id",)), AT, 7, 3)

    monkeypatch.setattr(Loader, "table", table)
    reason, order = f"{PROPOSAL}: ALTER TABLE orders", {"tables": ["shop.orders"], "reason": "test"}
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door, Connector(door.url, "shop") as connector:
        connector.stop_table("shop.orders", reason=reason, hint="", position=AT.low)
        connector.stop_table("shop.users", reason="total does not fit", hint="", position=AT.low)
        for tags in ({}, {SENSOR_NAME_TAG: "snapshot_shop_needed"}):
            assert executed(Snapshot, door.url, conf, tags=tags, **order).success
    assert found == [{"shop.orders": reason}, {}]
