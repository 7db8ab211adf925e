"""`dagster/row_count`: by the table's log, when it is written, and never for long."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.assets.reports import Reports
from orchestration.assets.row_count import ROW_COUNT, CountTime, RowCount
from spark_jobs.lake.tables import Lake


def test_the_count_is_that_of_the_time_when_it_is_written(tmp_path: Path) -> None:
    """Two batches have one materialization, which has the last count; a table that is away has none."""
    path, written = str(tmp_path / "shop" / "orders"), list[dg.AssetMaterialization]()
    lake, time = Lake(str(tmp_path)), CountTime()
    reports = Reports(written.append, 0, lambda: 0.0)
    for rows in (2, 3):
        write_deltalake(path, pa.table({"id": range(rows)}), mode="append")
        reports.add(dg.AssetKey("a"), {"rows": rows, ROW_COUNT: RowCount(lake, lambda: path, time)})
    reports.add(dg.AssetKey("b"), {"rows": 1, ROW_COUNT: RowCount(lake, lambda: f"{path}_away", time)})

    reports.write_all()

    assert [one.metadata.get(ROW_COUNT) for one in written] == [dg.MetadataValue.int(5), None]


def test_counts_take_a_small_part_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When they have taken too long, tables have none until the run is older."""
    now = [0.0]

    def rows(_lake: Lake, _path: str) -> int:
        now[0] += 0.6
        return 7

    monkeypatch.setattr(Lake, "rows", rows)
    count = RowCount(Lake(str(tmp_path)), lambda: "/t", CountTime(lambda: now[0]))
    assert [count.number() for _ in range(3)] == [7, 7, None]
    now[0] += 100
    assert count.number() == 7
