"""The files of a large table by their keys, as the order of its key sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from spark_jobs.lake.state import PRIMARY_KEY, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.maintain.key_order import KeyOrder
from spark_jobs.maintain.slices import RewriteLimits, plan
from spark_jobs.session import Sessions

STATE = TableState(1, 1, (LakeColumn("id", "bigint"),), {PRIMARY_KEY: '["id"]'})
LIMITS = RewriteLimits(ordered=1, least=1, step=100, small=1, file=100)


def add(path: Path, name: str, low: int, high: int, statistics: dict[str, object]) -> None:
    """Adds a file with these keys."""
    rows = pa.table({"id": pa.array(range(low, high), pa.int64())})
    if not path.exists():
        write_deltalake(path, rows.slice(0, 0))
    pq.write_table(rows, path / name)
    added = [AddAction(name, (path / name).stat().st_size, {}, 0, True, json.dumps(statistics))]
    table = DeltaTable(path)
    table.create_write_transaction(added, "append", table.schema())


def test_a_file_without_statistics_spans_all_keys(tmp_path: Path) -> None:
    """Every search reads it, so it is out of order, and rewritten with the others."""
    path, order = tmp_path / "t", KeyOrder(Lake(tmp_path), cast(Sessions, None), LIMITS)
    for number in range(4):
        low, high = number * 100, number * 100 + 99
        bounds = {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
        add(path, f"{number}.parquet", low, high + 1, {"numRecords": 100} | bounds)
    add(path, "odd.parquet", 90, 310, {"numRecords": 220})
    files = order.files(str(path), STATE)
    assert {name: (one.low, one.high) for name, one in files.items()} == {
        "0.parquet": (0, 99), "1.parquet": (100, 199), "2.parquet": (200, 299), "3.parquet": (300, 399),
        "odd.parquet": (0, 399),
    }  # fmt: skip
    kept = [((key,), f"{key // 100}.parquet") for key in range(400)]
    assert plan([*kept, *(((key,), "odd.parquet") for key in range(90, 310))], files, LIMITS).slices


def test_a_table_without_any_statistics_has_no_order(tmp_path: Path) -> None:
    """Nothing says where a key is."""
    path = tmp_path / "t"
    add(path, "odd.parquet", 0, 10, {})
    assert KeyOrder(Lake(tmp_path), cast(Sessions, None), LIMITS).files(str(path), STATE) == {}
