"""A table is set back to an earlier version without Spark, as Spark's REPLACE TABLE would do it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError

from spark_jobs.lake.replacement import replace_table, rows_of
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import transaction
from spark_jobs.session import Sessions
from spark_jobs.undo.set_back import SetBack, set_back

APP = "sluice:d:1:shop.a:1"


def rows(path: Path | str, version: int | None = None) -> list[dict[str, Any]]:
    found = QueryBuilder().register("t", DeltaTable(path, version)).execute("SELECT * FROM t").read_all()
    return sorted(pa.table(found).to_pylist(), key=repr)


def wanted(table: DeltaTable, **more: str) -> SetBack:
    properties = {**table.metadata().configuration, **more}
    return SetBack(properties, "a table's", APP, 7, '{"restored": 1}')


def put_back(path: Path | str, version: int, **more: str) -> bool:
    then = DeltaTable(path, version)
    return set_back(DeltaTable(path), then, wanted(then, **more))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Has four versions by delta-rs: rows, more rows, a column more, none."""
    path = tmp_path / "shop" / "a%ü"
    write_deltalake(path, pa.table({"id": [1, 2], "v": [10, 20]}), partition_by=["v"])
    write_deltalake(path, pa.table({"id": [3], "v": [30]}), mode="append")
    write_deltalake(path, pa.table({"id": [1], "v": [10], "w": [5]}), mode="append", schema_mode="merge")
    DeltaTable(path).delete()
    return path


class TestFiles:
    def test_rows_and_columns(self, table: Path) -> None:
        """All that the table was is there again, with the new properties, the comment, the version and the note."""
        assert put_back(table, 1, **{"sluice.a": "1"})
        now = DeltaTable(table)
        assert rows(table) == rows(table, 1) != []
        assert [field.name for field in now.schema().fields] == ["id", "v"]
        assert now.metadata().configuration["sluice.a"] == "1"
        assert now.metadata().description == "a table's"
        assert now.metadata().partition_columns == ["v"]
        assert now.transaction_version(APP) == 7
        assert now.history(1)[0]["userMetadata"] == '{"restored": 1}'
        assert put_back(table, 2)
        assert rows(table) == rows(table, 2)

    def test_old_files_go(self, table: Path) -> None:
        """The rows stay when VACUUM deletes what the earlier version had: they have files of their own names."""
        expected = rows(table, 1)
        assert put_back(table, 1)
        DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
        assert rows(table) == expected

    def test_checkpoints(self, table: Path) -> None:
        """The files of a version are found by a checkpoint and the commits after it, also when earlier ones are
        gone."""
        DeltaTable(table, 1).create_checkpoint()
        for name in (0, 1):
            (table / "_delta_log" / f"{name:020d}.json").unlink()
        expected = rows(table, 2)
        assert put_back(table, 2)
        assert rows(table) == expected

    def test_gone(self, table: Path) -> None:
        """Nothing is done, and no file is left, when a file of the version was deleted."""
        (gone, *_) = DeltaTable(table, 1).file_uris()
        Path(unquote(gone)).unlink()
        before = sorted(table.rglob("*.parquet"))
        assert not put_back(table, 1)
        assert sorted(table.rglob("*.parquet")) == before
        assert DeltaTable(table).version() == 3

    def test_another_commit(self, table: Path) -> None:
        """A commit that came in between is not overwritten, and no file is left."""
        then, now = DeltaTable(table, 1), DeltaTable(table)
        write_deltalake(table, pa.table({"id": [9], "v": [9], "w": [9]}), mode="append")
        before = sorted(table.rglob("*.parquet"))
        with pytest.raises(CommitFailedError):
            set_back(now, then, wanted(then))
        assert sorted(table.rglob("*.parquet")) == before
        assert [row["id"] for row in rows(table)] == [9]

    def test_an_error_after_the_commit(self, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The files of a commit that stands stay, whatever fails after it."""
        expected = rows(table, 1)

        def fails(_: DeltaTable) -> None:
            raise OSError("too many open files")

        monkeypatch.setattr(DeltaTable, "update_incremental", fails)
        with pytest.raises(OSError, match="too many"):
            put_back(table, 1)
        assert DeltaTable(table).version() == 4
        assert rows(table) == expected

    def test_a_link_that_is_answered_twice(self, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit that is there is ours if it is our file, also where the file system says that it was there."""
        link = Path.hardlink_to

        def twice(new: Path, old: Path) -> None:
            link(new, old)
            if new.suffix == ".json":
                raise FileExistsError(new)

        monkeypatch.setattr(Path, "hardlink_to", twice)
        assert put_back(table, 1)
        assert rows(table) == rows(table, 1)

    def test_a_torn_checkpoint(self, table: Path) -> None:
        """What is not understood is left to Spark."""
        then, now = DeltaTable(table, 2), DeltaTable(table)
        (table / "_delta_log" / f"{1:020d}.checkpoint.parquet").write_bytes(b"PAR1")
        assert not set_back(now, then, wanted(then))

    @pytest.mark.parametrize("of", ["delta.enableChangeDataFeed", "delta.appendOnly"])
    def test_left_to_spark(self, table: Path, of: str) -> None:
        """A table with a property that asks more of a writer is not written here."""
        DeltaTable(table).alter.set_table_properties({of: "true"})
        assert not put_back(table, 1)


def spark_table(sessions: Sessions, path: Path) -> None:
    """Version 1 has deletion vectors, version 2 none of its rows."""
    with sessions.take() as spark:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id BIGINT COMMENT 'key', at TIMESTAMP_NTZ, v DECIMAL(20, 2)) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'sluice.a' = 'x')"
        ).collect()
        spark.sql(
            f"INSERT INTO delta.`{path}` SELECT id, TIMESTAMP_NTZ'2026-01-01 00:00:00', CAST(id AS DECIMAL(20, 2)) "
            "FROM range(0, 1000, 1, 2)"
        ).collect()
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = 0").collect()
        spark.sql(f"UPDATE delta.`{path}` SET v = 0 WHERE id < 500").collect()


def spark_rows(sessions: Sessions, path: Path, at: str = "") -> list[tuple[Any, ...]]:
    with sessions.take() as spark:
        return sorted(tuple(row) for row in spark.sql(f"SELECT * FROM delta.`{path}`{at}").collect())


@pytest.mark.in_turn
def test_as_spark_does(sessions: Sessions, tmp_path: Path) -> None:
    """Rows under deletion vectors come back, Spark writes on, and the commit says what Spark's own would say."""
    paths = {way: tmp_path / way for way in ("ours", "sparks")}
    states = dict[str, TableState]()
    for way, path in paths.items():
        spark_table(sessions, path)
        then = Lake(tmp_path).state(str(path), "", 2)
        assert then is not None
        if way == "ours":
            assert put_back(path, 2)
        else:
            with sessions.take() as spark, transaction(spark, APP, 7, '{"restored": 1}'):
                replace_table(str(path), rows_of(spark, str(path), 2), then.columns, then.own_properties, "a table's")
        assert len(spark_rows(sessions, path)) == 666
        assert spark_rows(sessions, path) == spark_rows(sessions, path, " VERSION AS OF 2")
        found = Lake(tmp_path).state(str(path), APP)
        assert found is not None
        states[way] = found
    assert states["ours"] == states["sparks"]
    said = {}
    for way, path in paths.items():
        lines = (path / "_delta_log" / f"{4:020d}.json").read_text().splitlines()
        actions = [json.loads(line) for line in lines]
        (metadata,) = [one["metaData"] for one in actions if "metaData" in one]
        (about,) = [one["commitInfo"] for one in actions if "commitInfo" in one]
        first = next(json.loads(one)["metaData"] for one in _first(path) if "metaData" in one)
        names = ("description", "format", "schemaString", "partitionColumns", "configuration")
        new = (metadata["id"] != first["id"], metadata["createdTime"] != first["createdTime"])
        metrics = about["operationMetrics"]["numOutputRows"]
        said[way] = {name: metadata[name] for name in names}, new, about["operation"], metrics
    assert said["ours"] == said["sparks"]
    with sessions.take() as spark:
        spark.sql(f"UPDATE delta.`{paths['ours']}` SET v = 1 WHERE id % 3 = 1").collect()
        spark.sql(f"VACUUM delta.`{paths['ours']}`").collect()
    assert len(spark_rows(sessions, paths["ours"])) == 666


def _first(path: Path) -> list[str]:
    return (path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
