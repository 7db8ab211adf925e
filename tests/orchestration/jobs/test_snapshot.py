"""The command and the job that take snapshots, without a source: tables one after the other, and what they tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError, SourceError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from orchestration.commands.copy import Order
from orchestration.commands.snapshot import progress, run
from orchestration.jobs.snapshot import Snapshot, replica_of, snapshot_job
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.copy.result import Copied, NoSuchTable
from spark_jobs.copy.snapshot import Manner, Read, TableSnapshots
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.door_double import Destination, Server, opened

AT = SnapshotPlace(EntryPosition("bin.000001", 400), EntryPosition("bin.000001", 900))
REFUSED = SourceError("the rows may not be read", place="db:3306 shop.secret", hint="GRANT SELECT.")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "canal.properties").write_text("canal.destinations = shop\n")
    (tmp_path / "shop" / "instance.properties").write_text("canal.instance.master.address = 127.0.0.1:3306\n")
    return tmp_path


@pytest.fixture
def manners(monkeypatch: pytest.MonkeyPatch) -> list[Manner]:
    """How tables were read: `secret` may not be, `gone` is not there, all others have seven rows."""
    manners: list[Manner] = []

    def table(self: TableSnapshots, database: str, name: str, **options: Any) -> Copied | NoSuchTable:
        manners.append(self.manner)
        options["told"](Read(f"{database}.{name}", 7, 2, 9))
        if name == "secret":
            raise REFUSED
        schema = TableSchema(database, name, (Column("id", 3, 0),), ("id",))
        return NoSuchTable(database, name, AT) if name == "gone" else Copied(schema, AT, 7, 3)

    monkeypatch.setattr(TableSnapshots, "table", table)
    return manners


def test_one_table_that_fails_does_not_stop_the_others(
    conf: Path, manners: list[Manner], capsys: pytest.CaptureFixture[str]
) -> None:
    """A JSON line for each; exit code 1."""
    tables = ("shop.secret", "shop.gone", "shop.orders")
    order = Order("shop", tables, str(conf / "lake"), conf, 1001, "sc://x:1", "", "http://127.0.0.1:1", "")
    manner = Manner(1_000, Limits(500, 2))

    assert run(order, manner, cancel=False, as_json=True) == 1

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["table"] for line in lines] == list(tables)
    assert [line["copied"] for line in lines] == [False, False, True]
    assert (lines[0]["message"], lines[0]["hint"]) == (REFUSED.message, REFUSED.hint)
    assert (lines[2]["rows"], lines[2]["position"], lines[2]["high"]) == (7, "bin.000001:400", "bin.000001:900")
    assert manners == [manner] * 3


def test_all_captured_tables_without_a_name(
    conf: Path, manners: list[Manner], capsys: pytest.CaptureFixture[str]
) -> None:
    """The service says which; without an open snapshot there is nothing to cancel."""
    destination = Destination()
    destination.put(1)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        order = Order("shop", (), str(conf / "lake"), conf, 1001, "sc://x:1", "", door.url, "")
        assert run(order, Manner(), cancel=False, as_json=True) == 0
        captured = [json.loads(line)["table"] for line in capsys.readouterr().out.splitlines()]
        assert captured
        assert run(order, Manner(), cancel=True, as_json=True) == 0
        cancelled = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert cancelled == [{"table": table, "cancelled": False} for table in captured]


def test_the_rate_counts_the_rows_of_this_run() -> None:
    """Not those that another had staged."""
    assert progress(Read("s.t", 3_000, 3, 10_000, before=1_000), 4.0) == (
        "s.t: 3,000 of about 10,000 rows in 3 chunks, 500 rows/s"
    )


def test_the_job_materializes_each_table(conf: Path, manners: list[Manner], monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows, position and rate; one that fails is told at the end, and fails the run."""
    monkeypatch.setattr(LakeResource, "open", _opened)
    settings = Settings(destination="shop", lake=str(conf / "lake"), conf=str(conf))
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        resources = {
            "canal_shop": CanalResource(destination="shop", http_url=door.url),
            "lake_shop": LakeResource(root=str(conf / "lake"), remote="sc://x:1", conf=str(conf)),
        }
        config = {
            "tables": ["shop.secret", "shop.orders"],
            "rows_per_second": 100.0,
            "reason": "test",
            "replica": "replica:3307",
            "read_on": "driver",
        }
        given = {"ops": {"snapshot_shop_op": {"config": config}}}
        with dg.DagsterInstance.ephemeral() as instance:
            job = snapshot_job(settings)
            done = job.execute_in_process(given, instance=instance, resources=resources, raise_on_error=False)

    (event,) = [one for one in done.all_events if one.is_step_materialization]
    materialized = event.step_materialization_data.materialization
    assert materialized.asset_key == dg.AssetKey(["delta", "shop", "shop", "orders"])
    assert {"rows", "position", "position_high", "seconds", "rows_per_second", "reason"} <= materialized.metadata.keys()
    assert not done.success
    assert "shop.secret: the rows may not be read" in str(done.all_events)
    assert manners[0] == Manner(250_000, Limits(100.0, 4), ("replica", 3307), "driver")


def test_limits_that_let_nothing_through_are_refused() -> None:
    """By the field's name and its bound; and a replica that is no address, or a reader that is none."""
    for wrong in ({"rows_per_second": 0.0}, {"connections": 0}, {"rows_per_chunk": 0}):
        (field,) = wrong
        with pytest.raises(dg.Failure, match=f"{field} is '0.*: input should be greater than or equal to 1"):
            Snapshot(reason="test", **wrong)
    for address in ("replica", ":3306", "replica:x"):
        with pytest.raises(ConfigError, match="no address"):
            replica_of(address)
    assert replica_of("") is None
    with pytest.raises(ConfigError, match="on 'cluster'"):
        Manner(read_on="cluster")


class _opened:  # noqa: N801
    """A lake without Spark."""

    def __init__(self, *_: Any) -> None:
        self.lake = SparkLake(None, None, None, "", None)  # type: ignore[arg-type]

    def __enter__(self) -> SparkLake:
        return self.lake

    def __exit__(self, *_: object) -> None:
        pass
