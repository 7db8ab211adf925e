"""spark_jobs.lake.types and .sql: names and types. They need no Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdc_core.errors import TableStopped
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.types import LakeColumn, lake_columns, needs_mapping, spark_type


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.int8(), "tinyint"),
        (pa.int16(), "smallint"),
        (pa.int32(), "int"),
        (pa.int64(), "bigint"),
        (pa.decimal128(20, 0), "decimal(20,0)"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.bool_(), "boolean"),
        (pa.date32(), "date"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.string(), "string"),
        (pa.binary(), "binary"),
        (pa.struct([("srid", pa.int64()), ("wkb", pa.binary())]), "struct<srid:bigint,wkb:binary>"),
        (pa.list_(pa.float32()), "array<float>"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
    ],
)
def test_types_are_those_of_the_table(arrow: pa.DataType, delta: str) -> None:
    """The mapping of docs/types.md."""
    assert spark_type(arrow) == delta


def test_an_unsigned_type_is_refused() -> None:
    """Spark has none, and a type is never narrowed silently."""
    with pytest.raises(ValueError, match="uint64"):
        spark_type(pa.uint64())


@pytest.mark.parametrize(("names", "words"), [(["a", "A"], "differ only in case"), (["_sluice_op"], "reserved")])
def test_names_that_delta_cannot_hold_stop(names: list[str], words: str) -> None:
    """Two columns are never mixed up."""
    table = TableSchema("s", "t", tuple(Column(name, 3, 0) for name in names))
    with pytest.raises(TableStopped, match=words):
        lake_columns(pa.schema([(name, pa.int32()) for name in names]), table)


def test_odd_names_are_quoted_and_mapped() -> None:
    """Backticks and quotes cannot leave their identifier or literal."""
    assert quote("a`b") == "`a``b`"
    assert literal("it's \\ so") == "'it\\'s \\\\ so'"
    assert needs_mapping([LakeColumn("a b", "int")])
    assert not needs_mapping([LakeColumn("größe-1", "int")])
