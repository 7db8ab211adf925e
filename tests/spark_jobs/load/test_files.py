"""Batches as Parquet files in a staging table: every type, bounded row groups and files, a folder that is away."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_core.errors import LakeError
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.tables import Lake
from spark_jobs.load import files
from spark_jobs.load.files import Bounds, Files, staged_schema
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.snapshot.chunk import Chunk
from tests.support.lake_types import SCHEMA, rows


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(Lake(tmp_path / "lake"), "shop", "5f1c")


def test_every_type_is_read_as_it_was_written(staging: Staging) -> None:
    """With the Delta types that delta-rs itself would give, and the count of rows."""
    table = staging.table(SCHEMA)
    written = Files(staging.path, {}, SCHEMA)
    written.add(rows())
    staging.commit(table, written.end(), Groups().then([Chunk(0)]))
    found = staging.lake.open(staging.path).to_pyarrow_table()
    assert found.to_pylist() == pa.Table.from_batches([rows()]).rename_columns(SCHEMA.names).to_pylist()
    assert (staging.staged().rows, staging.staged().whole) == (3, True)


def test_row_groups_and_files_are_bounded(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read: what is kept is written when it is large, and a large file ends."""
    staging.table(SCHEMA)
    monkeypatch.setattr(files, "_GROUP_BYTES", 2 * rows().nbytes)
    monkeypatch.setattr(files, "_FILE_BYTES", 1)
    written = Files(staging.path, {}, SCHEMA)
    for _ in range(5):
        written.add(rows())
    found = written.end()
    assert [one.rows for one in found] == [6, 6, 3]
    for one in found:
        path = Path(staging.path, one.path)
        assert path.stat().st_size == one.size
        assert pq.ParquetFile(path).num_row_groups == 1


def test_no_rows_are_no_file(staging: Staging) -> None:
    """An empty table, or an empty chunk."""
    staging.table(SCHEMA)
    written = Files(staging.path, {}, SCHEMA)
    written.add(rows().slice(0, 0))
    assert written.end() == []


def test_bounds_are_those_of_a_file() -> None:
    """Over all its row groups, of integers alone; NULLs are counted, and are no bound."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int8())])
    bounds = Bounds(schema)
    bounds.add(pa.table([[5, None], ["x", "y"], [None, None]], schema=schema))
    bounds.add(pa.table([[-(2**63), 7], ["x", None], [None, None]], schema=schema))
    assert json.loads(bounds.to_json(4)) == {
        "numRecords": 4, "minValues": {"a": -(2**63)}, "maxValues": {"a": 7}, "nullCount": {"a": 1, "c": 4},
    }  # fmt: skip


def test_names_are_kept_where_parquet_can_hold_them() -> None:
    """Else all columns of the table are under numbers."""
    plain, odd = Column("id", 3, 0), Column("a,b", 3, 0)
    assert staged_schema(TableSchema("shop", "t", (plain,), ("id",))).names == ["id"]
    assert staged_schema(TableSchema("shop", "t", (plain, odd), ("id",))).names == ["0", "1"]


def test_a_folder_that_is_away_is_reported(tmp_path: Path) -> None:
    """As on a machine that does not share the lake's disk: it is not made there."""
    away = tmp_path / "away"
    written = Files(str(away), {}, SCHEMA)
    written.add(rows())
    with pytest.raises(LakeError, match="cannot be staged") as caught:
        written.end()
    assert caught.value.place == str(away)
    assert not away.exists()
