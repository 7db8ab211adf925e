"""spark_jobs.lake.kept_tables: an open table is used again for the same table alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from spark_jobs.lake.kept_tables import KeptTables
from spark_jobs.lake.tables import Lake


def made(path: Path, *values: int) -> None:
    """A table of one commit."""
    write_deltalake(path, pa.table({"id": pa.array(values, pa.int64())}))


def replaced(path: Path, *values: int) -> None:
    """Another table at the place of one, at the same version."""
    shutil.rmtree(path)
    made(path, *values)


def seen(kept: KeptTables, path: Path) -> list[int]:
    with kept.newest(str(path)) as table:
        return sorted(table.to_pyarrow_table().column("id").to_pylist())


def test_a_table_that_was_replaced_during_its_use_is_not_kept(tmp_path: Path) -> None:
    """It has another table's commit by then, which says nothing of what was opened."""
    kept, path = KeptTables({}), tmp_path / "t"
    made(path, 1)
    with kept.newest(str(path)):
        replaced(path, 2, 3)
    assert repr(kept) == "<KeptTables 0>"
    assert seen(kept, path) == [2, 3]


def test_a_kept_table_that_was_replaced_during_a_later_use_is_not_kept(tmp_path: Path) -> None:
    """Also where it had come to a newer version at the beginning of that use."""
    kept, path = KeptTables({}), tmp_path / "t"
    for commits in (1, 2):
        made(path, 1)
        assert seen(kept, path) == [1]
        for _ in range(commits - 1):
            write_deltalake(path, pa.table({"id": [5]}), mode="append")
        with kept.newest(str(path)):
            replaced(path, 2)
            for _ in range(commits - 1):
                write_deltalake(path, pa.table({"id": [3]}), mode="append")
        assert repr(kept) == "<KeptTables 0>"
        assert seen(kept, path) == [2, 3][:commits]
        shutil.rmtree(path)


def test_a_table_that_its_user_wrote_is_kept(tmp_path: Path) -> None:
    """Under the commit that it made."""
    kept, path = KeptTables({}), tmp_path / "t"
    made(path, 1)
    with kept.newest(str(path)) as table:
        write_deltalake(table, pa.table({"id": [2]}), mode="append")
    with kept.newest(str(path)) as again:
        assert again is table
    write_deltalake(path, pa.table({"id": [3]}), mode="append")
    assert seen(kept, path) == [1, 2, 3]


def test_a_lake_by_a_uri_is_where_delta_rs_writes(tmp_path: Path) -> None:
    """Whatever is escaped in it: its folder is made there, tables are kept, and a torn commit is seen."""
    root = (tmp_path / "my lake").as_uri()
    lake = Lake(root)
    lake.check_writable()
    assert [one.name for one in tmp_path.iterdir()] == ["my lake"]
    path = f"{root}/shop/t"
    write_deltalake(path, pa.table({"id": [1]}))
    kept = KeptTables({})
    with kept.newest(path):
        pass
    assert repr(kept) == "<KeptTables 1>"
    os.truncate(tmp_path / "my lake" / "shop" / "t" / "_delta_log" / f"{0:020}.json", 0)
    assert lake.is_torn(path, 0)
    assert DeltaTable.is_deltatable(path)
