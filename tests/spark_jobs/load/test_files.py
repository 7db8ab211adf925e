"""Batches as Parquet files in a staging table: every type, bounded row groups and files, a folder that is away."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, ignore_patterns

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import create_table_with_add_actions

from cdc_core.errors import LakeError
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.statistics import new_file
from spark_jobs.lake.tables import Lake
from spark_jobs.load import files
from spark_jobs.load.files import Files, files_of, staged_schema
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


def test_readers_find_each_value(staging: Staging) -> None:
    """With a condition on a column of any type, as delta-rs and pyarrow take Delta's statistics."""
    table = staging.table(SCHEMA)
    written = Files(staging.path, {}, SCHEMA)
    written.add(rows())
    staging.commit(table, written.end(), Groups().then([Chunk(0)]))
    for opened in (staging.lake.open(staging.path), _copied(staging)):
        found = opened.to_pyarrow_dataset()
        for field in SCHEMA:
            column = pc.field(field.name)
            assert found.to_table(filter=column.is_null()).num_rows == 1, field
            if pa.types.is_nested(field.type):
                continue
            for value in rows().column(int(field.name)).slice(0, 2):
                assert found.to_table(filter=column == value.cast(found.schema.field(field.name).type)).num_rows == 1, (
                    field
                )


@pytest.mark.parametrize("value", ["\U00020bb7\u7530", "\U0001f600", "\U00020bb7" * 40], ids=ascii)
def test_rare_characters_are_found(staging: Staging, value: str) -> None:
    """Those beyond U+FFFF, such as a Chinese name has, in bounds that are shortened too."""
    schema = pa.schema([("name", pa.string())])
    table, written = staging.table(schema), Files(staging.path, {}, schema)
    written.add(pa.RecordBatch.from_arrays([pa.array([value])], schema=schema))
    staging.commit(table, written.end(), Groups().then([Chunk(0)]))
    for opened in (staging.lake.open(staging.path), _copied(staging)):
        found = opened.to_pyarrow_dataset().to_table(filter=pc.field("name") == value)
        assert found.num_rows == 1


def test_later_columns_are_found_too(staging: Staging) -> None:
    """A table's key may be after those that have statistics by Delta's default."""
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(40)])
    table, written = staging.table(schema), Files(staging.path, {}, schema)
    written.add(pa.RecordBatch.from_arrays([pa.array([number]) for number in range(40)], schema=schema))
    staging.commit(table, written.end(), Groups().then([Chunk(0)]))
    assert '"c39": 39' in files_of(staging.lake.open(staging.path))[0].stats


def _copied(staging: Staging) -> DeltaTable:
    """Returns a table of the same files, described by what the first one's log has of them."""
    opened, path = staging.lake.open(staging.path), f"{staging.path}-copied"
    copytree(staging.path, path, ignore=ignore_patterns("_delta_log"))
    added = [new_file(one.path, one.size, one.stats) for one in files_of(opened)]
    create_table_with_add_actions(path, opened.schema(), added)
    return DeltaTable(path)


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
