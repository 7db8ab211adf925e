"""The properties of a new table in Delta: how long its log is kept, and of which columns it has statistics."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.ddl import create_table, delta_properties
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.session import Sessions

STATISTICS = "delta.dataSkippingNumIndexedCols"


def schema(columns: int, *key: int, spatial: int = 0) -> TableSchema:
    """Integer columns, the first `spatial` of which are geometries."""
    kinds = [ColumnType.GEOMETRY if at < spatial else ColumnType.LONG for at in range(columns)]
    named = tuple(Column(f"c{at}", kind, 0) for at, kind in enumerate(kinds))
    return TableSchema("shop", "wide", named, tuple(f"c{at}" for at in key))


@pytest.mark.parametrize(
    ("table", "indexed"),
    [
        (schema(400, 0), None),
        (schema(400, 31), None),
        (schema(400, 32), "33"),
        (schema(400, 60, 2), "61"),
        (schema(400, 30, spatial=5), "36"),  # a geometry is two columns
        (schema(400, 255), "256"),
        (schema(400, 300), None),
        (schema(400), None),
    ],
)
def test_the_key_has_statistics(table: TableSchema, indexed: str | None) -> None:
    """Also where it is behind the columns that have them anyway; not where it is very far behind."""
    found = delta_properties(table)
    assert found.get(STATISTICS) == indexed
    assert found["delta.logRetentionDuration"] == "interval 10 days"


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.integration
def test_files_show_the_range_of_a_late_key(spark_remote: str, tmp_path: Path) -> None:
    """Spark writes the statistics, and what leaves files out reads them."""
    lake, table = Lake(tmp_path), schema(40, 39)
    path = lake.path("shop", "wide")
    with Sessions(spark_remote) as sessions, sessions.take() as spark:
        columns = [LakeColumn(column.name, "int") for column in table.columns]
        create_table(sessions, lake, path, "shop", table, columns, "")
        values = ", ".join(["7"] * 39)
        spark.sql(f"INSERT INTO delta.{quote(path)} VALUES ({values}, 5), ({values}, 9)").collect()
    files = pa.table(lake.open(path).get_add_actions(flatten=True))
    assert (min(files.column("min.c39").to_pylist()), max(files.column("max.c39").to_pylist())) == (5, 9)
    assert lake.bytes_outside(path, "c39", 100, 200) > 0
