"""Tables of the lake maintained by `Upkeep`, against a real MySQL, a real service and Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from orchestration.cli import app
from orchestration.commands.verb import access_of, run
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Maintain
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.lake import tables
from spark_jobs.lake.features import CHANGE_FEED, ENABLE_VECTORS
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import LAYOUT, Layout, Layouts, Vectors
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.maintain.retention import RETENTION
from spark_jobs.maintain.shape import shape
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.write import vectors
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import app_of

pytestmark = pytest.mark.integration
RIGHT = {"t": (0, 0, 0)}
EIGHT_DAYS = 8 * 86_400


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        yield shop


def path_of(shop: Shop, table: str = "t") -> str:
    return shop.lake.lake.path(shop.database, table)


def state_of(shop: Shop, table: str = "t") -> TableState:
    state = shop.lake.lake.state(path_of(shop, table), app_of(shop, table))
    assert state is not None
    return state


def in_lake(shop: Shop, statement: str) -> None:
    """Done by Spark; `{}` is the table."""
    with shop.lake.sessions.take() as spark:
        spark.sql(statement.replace("{}", f"delta.{quote(path_of(shop))}")).collect()


def upkeep(shop: Shop) -> Upkeep:
    return Upkeep(shop.connector, shop.lake.lake, shop.lake.sessions, quiet_seconds=0)


def pieces(shop: Shop) -> None:
    """Table `t`, at the source and in the lake, there in sixteen files or more."""
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}')" for n in range(200)),
    )
    assert shop.drain() == []
    with shop.lake.sessions.take() as spark:
        rows = spark.read.format("delta").load(path_of(shop)).repartition(20)
        rows.write.format("delta").mode("overwrite").save(path_of(shop))
    assert shape(shop.lake.lake, path_of(shop)).small >= 16


def lost(log: Path) -> list[Path]:
    """The checksums whose file, or version, is gone."""
    there = {file.name for file in log.iterdir()}
    versions = {name.partition(".")[0] for name in there if not name.endswith(".crc")}
    named = {name: name.removesuffix(".crc").removeprefix(".") for name in there if name.endswith(".crc")}
    return sorted(log / name for name, of in named.items() if of not in there | versions)


def parquet(shop: Shop) -> list[Path]:
    return sorted(Path(path_of(shop)).rglob("*.parquet"))


@pytest.mark.in_turn
def test_small_files_become_one_and_old_ones_go(shop: Shop) -> None:
    """Rows, properties and the place of the stream stay, and a claim that waits is given back; later changes apply.
    Files that left the table a week ago go, and no others: an older version of this week can still be read."""
    pieces(shop)
    before = state_of(shop)
    shop.execute("UPDATE t SET v = 'new' WHERE id < 10")
    shop.read()
    found = upkeep(shop).table(shop.database, "t")
    assert (found.left, found.compacted, found.deleted) == ("", True, 0)
    assert found.before is not None
    assert found.after is not None
    assert (found.before.small >= 16, found.after.files) == (True, 1)
    after = state_of(shop)
    assert (after.applied, after.properties) == (before.applied, before.properties)
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT
    assert not upkeep(shop).table(shop.database, "t").compacted

    orphan = Path(path_of(shop)) / "part-00000-0a0a0a0a-0000-4000-8000-000000000000-c000.snappy.parquet"
    young = orphan.with_name("part-00001-0a0a0a0a-0000-4000-8000-000000000000-c000.snappy.parquet")
    for file in (orphan, young):
        file.write_bytes(b"what a killed run left")
    os.utime(orphan, (orphan.stat().st_mtime - EIGHT_DAYS,) * 2)
    was = set(parquet(shop))
    in_lake(shop, "ALTER TABLE {} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 9 days')")
    assert upkeep(shop).table(shop.database, "t").deleted == 0
    in_lake(shop, "ALTER TABLE {} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 hour')")
    assert upkeep(shop).table(shop.database, "t").deleted == 1
    assert was - set(parquet(shop)) == {orphan}
    assert shop.differences("t") == RIGHT

    quarantine = QuarantineTable(shop.lake.lake, shop.connector.destination, f"{shop.database}.t")
    quarantine.entered(Fence(shop.lake.lake, shop.lake.sessions), pa.schema({"id": pa.int32()}))
    left = Path(quarantine.path) / orphan.name
    left.write_bytes(b"rows of an earlier version")
    os.utime(left, (left.stat().st_mtime - EIGHT_DAYS,) * 2)
    assert upkeep(shop).table(shop.database, "t").deleted == 1
    assert not left.exists()


@pytest.mark.in_turn
def test_checksums_go_with_their_commits(shop: Shop) -> None:
    """Spark's, of commits that delta-rs has deleted. Those of today and of what is there stay, and Spark reads on."""
    pieces(shop)
    in_lake(shop, "ALTER TABLE {} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 7 days')")
    log = Path(path_of(shop), "_delta_log")
    for file in log.iterdir():
        os.utime(file, (file.stat().st_mtime - 2 * EIGHT_DAYS,) * 2)
    table = DeltaTable(path_of(shop))
    table.create_checkpoint()
    table.cleanup_metadata()
    young = lost(log)[-1]
    assert {file.name[0] for file in lost(log)} == {".", "0"}  # of commits, and of versions
    os.utime(young)

    upkeep(shop).table(shop.database, "t")

    assert lost(log) == [young]
    assert list(log.glob(".*.json.crc"))
    shop.execute("UPDATE t SET v = 'new' WHERE id < 10")
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_beside_a_run_that_stays_a_claim_is_needed(shop: Shop) -> None:
    """Where nothing waits, small files stay, and the metadata say so; with a row that waits they go."""
    pieces(shop)
    there = replace(upkeep(shop), stays=True)
    version = state_of(shop).version
    left = there.table(shop.database, "t")
    assert (left.compacted, left.idle, state_of(shop).version) == (False, True, version)
    assert "left_for_later" in left.to_dict()
    shop.execute("UPDATE t SET v = 'new' WHERE id < 10")
    shop.read()
    assert there.table(shop.database, "t").compacted


def test_what_is_not_its_own_is_left_alone(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table that is foreign, stopped or not there, with the reason; the command reports it and ends with 0."""
    pieces(shop)
    in_lake(shop, "ALTER TABLE {} SET TBLPROPERTIES ('sluice.destination' = 'other')")
    version = state_of(shop).version
    assert "belongs to destination 'other'" in upkeep(shop).table(shop.database, "t").left
    in_lake(shop, "ALTER TABLE {} SET TBLPROPERTIES ('sluice.destination' = 'shop')")
    name = f"{shop.database}.t"
    shop.connector.stop_table(name, reason="paused", hint="resume it", position=shop.read())
    lake, remote, url = str(tmp_path / "lake"), shop.lake.sessions.remote, shop.connector.http_url
    at = access_of("shop", lake=lake, conf=tmp_path / "conf", spark=remote, service=url)
    capsys.readouterr()
    assert run(Maintain(tables=[name, f"{shop.database}.none"]), at, as_json=True) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [one["left_alone"] for one in told] == ["it is stopped: paused", "the lake has no such table"]
    assert state_of(shop).version == version + 1


@pytest.mark.in_turn
def test_a_table_is_brought_to_what_readers_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors and a feature that nothing needs go, what defs.yaml declares comes, and no row changes. What comes from
    then on applies; done again there is nothing to do."""
    monkeypatch.setattr(tables, "SMALL_TABLE", -1)  # a MERGE adds vectors
    monkeypatch.setattr(vectors, "LARGE_SHARE", 1.0)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(3))", "INSERT INTO t VALUES (1, NULL), (2, NOW())")
    assert shop.drain() == []
    in_lake(shop, "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    shop.lake.lake.open(path_of(shop)).alter.set_table_properties({"a.b": "c"}, raise_if_not_exists=False)
    shop.execute("UPDATE t SET at = NOW() WHERE id = 1")
    assert shop.drain() == []
    assert any(one.count("numTargetDeletionVectorsAdded") for one in shop.lake.lake.commits(path_of(shop)))
    assert {"deletionVectors", "variantType"} <= state_of(shop).features

    lake = Lake(
        shop.lake.lake.root,
        layouts=Layouts(properties={"*": {"delta.deletedFileRetentionDuration": "interval 9 days"}}),
    )
    readers, applied = replace(upkeep(shop), lake=lake, readers=True), state_of(shop).applied
    found = readers.table(shop.database, "t")
    assert found.changed[:2] == (f"set {RETENTION} = interval 9 days", "without deletionVectors")
    assert "without variantType" in found.text
    assert state_of(shop).features <= {"timestampNtz", "appendOnly", "invariants"}
    assert (state_of(shop).applied, state_of(shop).properties[RETENTION]) == (
        applied,
        "interval 9 days",
    )
    assert len(DeltaTable(path_of(shop)).to_pandas()) == 2
    again = readers.table(shop.database, "t")
    assert (again.changed, again.lasting, again.compacted) == ((), (), False)
    shop.execute("UPDATE t SET at = NULL", "INSERT INTO t VALUES (3, NOW())")
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_the_command_does_what_a_defs_yaml_declares(shop: Shop, tmp_path: Path) -> None:
    """With --defs the table gets the layout of the file, and without it keeps that one. A folder without the
    destination is refused before anything is done."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    assert shop.drain() == []
    file = tmp_path / "defs" / "shop" / "defs.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"type: orchestration.destination.CdcDestination\nattributes:\n  destination: shop\n  lake: {tmp_path}/lake\n"
        f"  table_properties: {{'*': {{{CHANGE_FEED}: true}}}}\n  cluster_by: {{'*': [v]}}\n"
    )

    def maintained(*more: str) -> Any:
        at = ["--lake", f"{tmp_path}/lake", "--spark", shop.lake.sessions.remote, "--service", shop.connector.http_url]
        named = ["maintain", "shop", f"{shop.database}.t", "--readers", "--json"]
        return CliRunner().invoke(app, [*named, *at, "--conf", f"{tmp_path}/conf", *more])

    def changed(*more: str) -> list[str]:
        done = maintained(*more)
        assert done.exit_code == 0, done.output
        (found,) = (one for line in done.stdout.splitlines() if "table" in (one := json.loads(line)))
        return list(found.get("changed", ()))

    missing = maintained("--defs", str(tmp_path / "none"))
    assert missing.exit_code == 1
    assert "no defs.yaml has client 1001 of destination shop" in str(missing.exception)
    assert changed("--defs", str(tmp_path / "defs")) == [f"set {CHANGE_FEED} = true", "clustered by v"]
    in_lake(shop, f"ALTER TABLE {{}} UNSET TBLPROPERTIES ('{CHANGE_FEED}')")
    assert changed() == [f"set {CHANGE_FEED} = true"]
    assert changed("--defs", str(file)) == []
    shop.execute("UPDATE t SET v = 1 WHERE id = 1")
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_a_table_keeps_the_layout_to_which_it_was_brought(shop: Shop) -> None:
    """Without a defs.yaml too: it notes it, and a property that somebody removed comes back. Another layout takes its
    place, and a plain one leaves no note. What comes from then on applies."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    assert shop.drain() == []
    root, unknown = shop.lake.lake.root, replace(upkeep(shop), readers=True)

    def brought(layouts: Layouts) -> tuple[str, ...]:
        return replace(unknown, lake=Lake(root, layouts=layouts)).table(shop.database, "t").changed

    wanted = Layouts(Vectors.ALWAYS, properties={"*": {CHANGE_FEED: "true"}}, cluster_by={"*": ("v",)})
    assert brought(wanted) == (f"set {CHANGE_FEED} = true, {ENABLE_VECTORS} = true", "clustered by v")
    assert Layout.noted(state_of(shop).properties) == wanted.of("t")
    assert unknown.table(shop.database, "t").changed == brought(wanted) == ()
    in_lake(shop, f"ALTER TABLE {{}} UNSET TBLPROPERTIES ('{CHANGE_FEED}')")
    assert unknown.table(shop.database, "t").changed == (f"set {CHANGE_FEED} = true",)
    shop.execute("UPDATE t SET v = 1 WHERE id = 1")
    assert shop.drain() == []

    assert brought(Layouts(Vectors.NEVER))[:2] == (f"set {ENABLE_VECTORS} = false", "clustered by nothing")
    assert LAYOUT not in state_of(shop).properties
    assert Layout.noted(state_of(shop).properties) == Layout(Vectors.NEVER)
    assert unknown.table(shop.database, "t").changed == ()
    assert brought(Layouts()) == ("deletionVectors again when it gains by them",)
    assert ENABLE_VECTORS not in state_of(shop).properties
    shop.execute("UPDATE t SET v = 2", "INSERT INTO t VALUES (3, 3)")
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT
