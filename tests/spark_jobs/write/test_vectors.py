"""spark_jobs.write.vectors: which MERGEs add deletion vectors. It needs no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake
from deltalake.writer import ColumnProperties

from cdc_core.client.changes import PlanCounts, RowsDoor, TableRead
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.changes.net import CLAIMED
from spark_jobs.changes.table_changes import Changes, OfClaim, SeenChanges
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake import tables
from spark_jobs.lake.tables import Lake
from spark_jobs.write.vectors import gains_by_vectors, rows_in_files

FIELDS = pa.schema({"id": pa.int64()})
TABLE = TableSchema("shop", "t", (Column("id", 8, 0),), ("id",))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table of two files: the keys from 0 to 99, and from 100 to 199."""
    monkeypatch.setattr(tables, "SMALL_TABLE", 0)
    lake = Lake(tmp_path)
    for first in (0, 100):
        write_deltalake(path_of(lake), pa.table({"id": range(first, first + 100)}), mode="append")
    return lake


def path_of(lake: Lake) -> str:
    return lake.path("shop", "t")


def changed(rows: int, gained: int | None = 0) -> tuple[Changes, SeenChanges]:
    counts = PlanCounts(rows, gained=gained)
    source = OfClaim(RowsDoor("grpc://h:1"), TableRead(FIELDS, TABLE, counts, rows, (b"one",)))
    return Changes(TABLE, FIELDS, VersionRange(1, 10, 90), rows, counts, source), SeenChanges("v", rows)


def gains(lake: Lake, changes: Changes, seen: SeenChanges, between: tuple[int, int] | None = None) -> bool:
    return gains_by_vectors(lake, path_of(lake), changes, seen, between)


def test_much_of_a_table_is_rewritten(lake: Lake) -> None:
    """Keys that are new to the table do not count, nor do images, of which one key may have many."""
    assert gains(lake, *changed(100))
    assert not gains(lake, *changed(101))
    assert gains(lake, *changed(1_000, gained=900))
    assert not gains(lake, *changed(1_000, gained=None))
    changes, seen = changed(1_000)
    assert gains(lake, changes, replace(seen, form=CLAIMED))


def test_of_a_range_of_keys_its_files_count(lake: Lake) -> None:
    """Those that the statement leaves out have no part in it."""
    path = path_of(lake)
    assert not gains(lake, *changed(51), (120, 180))
    assert gains(lake, *changed(50), (120, 180))
    found = [rows_in_files(lake, path, "id", bounds) for bounds in ((0, 99), (99, 100), (200, 300))]
    assert found == [100, 200, 0]
    assert rows_in_files(lake, path) == 200


def test_a_file_without_bounds_may_have_any_key(lake: Lake) -> None:
    """Its rows count, whatever the range is."""
    none = WriterProperties(column_properties={"id": ColumnProperties(statistics_enabled="NONE")})
    write_deltalake(path_of(lake), pa.table({"id": range(7)}), mode="append", writer_properties=none)
    assert rows_in_files(lake, path_of(lake), "id", (120, 180)) == 107


def test_a_small_table_is_rewritten(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little changes."""
    assert gains(lake, *changed(1))
    monkeypatch.setattr(tables, "SMALL_TABLE", 1 << 20)
    assert not gains(lake, *changed(1))
