"""Values that partition a table, as Spark writes and reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.lake.layout import LAYOUT, Layout
from spark_jobs.lake.replacement import replace_table
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn
from spark_jobs.session import Sessions

_VALUES = {
    "tinyint": ("-128", "127"),
    "smallint": ("-32768", "32767"),
    "int": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "decimal(20,0)": ("18446744073709551615", "0"),
    "boolean": ("true", "false"),
    "date": ("0001-01-01", "1582-10-04", "9999-12-31"),
}


@pytest.mark.in_turn
@pytest.mark.integration
@pytest.mark.parametrize("kind", _VALUES)
def test_what_partitions_a_table_is_found_again(kind: str, spark_remote: str, tmp_path: Path) -> None:
    """A MERGE by the value meets each row, NULL too, and both engines read what was written."""
    Layout(partition_by=("k",)).check("shop.t", {"v": "int", "k": kind})
    path, values = str(tmp_path / "t"), (*_VALUES[kind], None)
    listed = ", ".join(f"({n}, {'NULL' if value is None else repr(value)})" for n, value in enumerate(values))
    asked = f"SELECT v, CAST(k AS {kind}) AS k FROM VALUES {listed} AS listed(v, k)"
    columns, laid_out = [LakeColumn("v", "int"), LakeColumn("k", kind)], json.dumps({"partition_by": ["k"]})
    with Sessions(spark_remote) as sessions, sessions.take() as spark:
        replace_table(path, spark.sql(asked), columns, {LAYOUT: laid_out}, "")
        spark.sql(
            f"MERGE INTO delta.{quote(path)} t USING ({asked}) s ON t.k <=> s.k "
            "WHEN MATCHED THEN UPDATE SET v = s.v + 10 WHEN NOT MATCHED THEN INSERT *"
        ).collect()
        wanted = [{"v": row.v + 10, "k": row.k} for row in spark.sql(f"{asked} ORDER BY v").collect()]
        found = spark.sql(f"SELECT v, k FROM delta.{quote(path)} ORDER BY v").collect()
    assert [row.asDict() for row in found] == wanted
    table = DeltaTable(path)
    assert table.metadata().partition_columns == ["k"]
    assert table.to_pyarrow_table().select(["v", "k"]).sort_by("v").to_pylist() == wanted
