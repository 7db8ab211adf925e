"""Files that delta-rs writes are not left out by statistics that it rounds."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from spark_jobs.lake.statistics import exact_statistics


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(20, 0), Decimal(1234567890123456789)),
        (pa.decimal128(17, 2), Decimal("123456789012345.67")),
        (pa.decimal128(15, 5), Decimal("1234567890.12345")),
        (pa.int64(), 2**62 + 1),
        (pa.timestamp("us"), datetime(7621, 7, 25, 21, 44, 38, 194333)),
    ],
)
def test_a_row_is_found_by_its_key(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    """By a MERGE, and by whoever reads with a condition."""
    rows = pa.table({"id": pa.array([value], kind), "what": ["a"]})
    how = exact_statistics(rows.schema, ("id",))
    write_deltalake(tmp_path, rows, writer_properties=how)
    table = DeltaTable(tmp_path)
    source = pa.table({"id": pa.array([value], kind), "what": ["b"]})
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t", writer_properties=how)
    done = merge.when_matched_update({"what": "s.what"}).when_not_matched_insert({"id": "s.id"}).execute()
    assert (done["num_target_rows_updated"], done["num_target_rows_inserted"]) == (1, 0)
    if not pa.types.is_timestamp(kind):
        query = f"SELECT what FROM t WHERE id = CAST('{value}' AS {_sql(kind)})"
        assert pa.table(QueryBuilder().register("t", DeltaTable(tmp_path)).execute(query).read_all()).num_rows == 1


def _sql(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else "BIGINT"
