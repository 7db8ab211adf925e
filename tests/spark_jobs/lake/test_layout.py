"""spark_jobs.lake.layout: which layout a table has, and which tables cannot have theirs."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from cdc_core.errors import TableStopped
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.ddl import make_table, table_properties
from spark_jobs.lake.features import CHANGE_FEED, ENABLE_VECTORS
from spark_jobs.lake.layout import (
    LAYOUT,
    Layout,
    Layouts,
    Vectors,
    layouts_from,
    layouts_json,
)
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, spark_type
from spark_jobs.write.order import writable

LAYOUTS = Layouts(
    Vectors.AUTO,
    {"shop.events_*": Vectors.NEVER, "shop.*": Vectors.ALWAYS},
    {"shop.orders": {CHANGE_FEED: "true"}},
    {"shop.orders": ("customer_id",)},
    {"shop.events_*": ("day", "kind")},
)
TYPES = {"id": "bigint", "v": "int"}
ORDERS = TableSchema(
    "shop",
    "orders",
    (Column("id", ColumnType.LONGLONG, 0), Column("customer_id", ColumnType.LONGLONG, 0)),
    ("id",),
)


def test_the_first_pattern_that_fits_counts() -> None:
    """A table of no pattern is plain; the text form keeps all of it."""
    orders = Layout(Vectors.ALWAYS, {CHANGE_FEED: "true"}, ("customer_id",))
    assert LAYOUTS.of("shop.orders") == orders
    assert LAYOUTS.of("shop.events_1") == Layout(Vectors.NEVER, partition_by=("day", "kind"))
    assert LAYOUTS.of("other.orders") == Layout()
    assert layouts_from(layouts_json(LAYOUTS)) == LAYOUTS
    assert layouts_from("{}") == Layouts()


def test_spark_makes_a_table_that_is_laid_out(tmp_path: Path) -> None:
    """Its properties say how, and delta-rs makes the plain ones, also without vectors."""
    columns = [LakeColumn("id", "bigint"), LakeColumn("customer_id", "bigint")]
    for layouts, plain in ((LAYOUTS, False), (Layouts(Vectors.NEVER), True), (None, True)):
        lake = Lake(tmp_path / str(plain) / str(layouts is None), layouts=layouts)
        properties = table_properties(lake, "d", ORDERS, "token")
        assert make_table(lake, lake.path("shop", "orders"), columns, properties, "") is plain
        assert (LAYOUT in properties) is not plain
    assert table_properties(Lake(tmp_path, layouts=Layouts(Vectors.NEVER)), "d", ORDERS, "t")[ENABLE_VECTORS] == "false"
    made = table_properties(Lake(tmp_path, layouts=LAYOUTS), "d", ORDERS, "t")
    assert (made[ENABLE_VECTORS], made[CHANGE_FEED]) == ("true", "true")
    assert Layout.of(made).clause == " CLUSTER BY (`customer_id`)"
    assert Layout(partition_by=("a", "b`c")).clause == " PARTITIONED BY (`a`, `b``c`)"


def test_a_table_says_which_layout_it_has() -> None:
    """One that was made plain does not, and neither does one of an earlier version, which noted columns alone."""
    for pattern in ("shop.orders", "shop.events_1", "shop.other"):
        assert Layout.noted(LAYOUTS.of(pattern).note) == LAYOUTS.of(pattern)
    assert Layout.noted(Layout(Vectors.NEVER).note) == Layout(Vectors.NEVER)
    earlier = {LAYOUT: '{"cluster_by": ["a"], "partition_by": []}', ENABLE_VECTORS: "false"}
    assert Layout.noted({}) is Layout.noted(earlier) is None
    assert Layout.of(earlier) == Layout(cluster_by=("a",))


def test_a_table_that_cannot_have_it_stops(tmp_path: Path) -> None:
    """One without such a column, and one that patterns want in both forms: the error says what to correct."""
    with pytest.raises(TableStopped, match="cluster_by names columns that it does not have: region") as stopped:
        Layout(cluster_by=("id", "region")).check("shop.orders", TYPES)
    assert "defs.yaml" in stopped.value.hint
    with pytest.raises(TableStopped, match="both clustered and partitioned"):
        Layout(cluster_by=("id",), partition_by=("v",)).check("shop.orders", TYPES)
    lake = Lake(tmp_path, layouts=Layouts(partition_by={"*": ("day",)}))
    with pytest.raises(TableStopped, match="partition_by"):
        table_properties(lake, "d", ORDERS, "token")


def test_a_column_that_left_the_table_no_longer_lays_it_out() -> None:
    """Clusters keep the columns that are left."""
    assert Layout(cluster_by=("a", "b")).among({"b": "int", "c": "int"}).cluster_by == ("b",)


def test_a_column_whose_type_changed_no_longer_partitions_the_table() -> None:
    """Rows are rewritten for the new type: they are not partitioned by what a partition may lose."""
    found = Layout(partition_by=("day", "n")).among({"day": "string", "n": "bigint"})
    assert found == Layout(partition_by=("n",))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 127]),
        (pa.int16(), [-32768, 0]),
        (pa.int32(), [-(2**31), 2**31 - 1]),
        (pa.int64(), [-(2**63), 2**63 - 1]),
        (pa.decimal128(20, 0), [Decimal(2**64 - 1), Decimal(0)]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)]),
    ],
    ids=str,
)
def test_what_partitions_a_table_is_read_back(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    """Each value, and NULL, as delta-rs reads it for pandas and in SQL."""
    Layout(partition_by=("k",)).check("shop.orders", {"k": spark_type(kind)})
    rows = pa.table({"k": pa.array([*values, None], kind), "v": range(len(values) + 1)})
    write_deltalake(tmp_path, rows, partition_by=["k"])
    table = DeltaTable(tmp_path)
    found = QueryBuilder().register("t", table).execute("SELECT k, v FROM t").read_all()
    for one in (table.to_pyarrow_table(), pa.table(found)):
        assert one.select(["k", "v"]).sort_by("v").cast(rows.schema) == rows


@pytest.mark.parametrize(
    "kind",
    ["string", "binary", "float", "double", "decimal(10,2)", "timestamp", "timestamp_ntz", "array<float>"],
)
def test_what_a_partition_may_lose_partitions_no_table(kind: str) -> None:
    """'' would be NULL; the error names the remedies."""
    with pytest.raises(TableStopped, match="partition_by names k, of type") as stopped:
        Layout(partition_by=("k",)).check("shop.orders", {"k": kind})
    assert "cluster_by" in stopped.value.hint
    Layout(cluster_by=("k",)).check("shop.orders", {"k": kind})


def test_a_table_partitioned_by_a_text_stops(tmp_path: Path) -> None:
    """Whatever the source calls it: an ENUM, a SET, a DATE that comes as text."""
    columns = (
        Column("id", ColumnType.LONGLONG, 0),
        Column("kind", ColumnType.ENUM, 1, labels=("a", "b")),
        Column("day", ColumnType.DATE, 0, as_text=True),
        Column("on", ColumnType.DATE, 0),
    )
    for name in ("kind", "day"):
        lake = Lake(tmp_path, layouts=Layouts(partition_by={"*": (name,)}))
        with pytest.raises(TableStopped, match=f"partition_by names {name}, of type string"):
            table_properties(lake, "d", TableSchema("shop", "t", columns, ("id",)), "token")
    lake = Lake(tmp_path, layouts=Layouts(partition_by={"*": ("on",)}))
    assert Layout.of(table_properties(lake, "d", TableSchema("shop", "t", columns, ("id",)), "token")).partition_by


def test_the_engine_sees_what_only_spark_writes() -> None:
    """Features, partitions and clusters that delta-rs does not write as Spark does, or a feed it would leave out."""
    assert writable({"appendOnly", "invariants", "timestampNtz", "variantType"}, {})
    assert not writable({"deletionVectors"}, {})
    assert not writable({"clustering", "domainMetadata"}, {})
    assert not writable((), {"delta.columnMapping.mode": "name"})
    assert writable({"changeDataFeed"}, {CHANGE_FEED: "true"})
    assert not writable({"changeDataFeed"}, {CHANGE_FEED: "TRUE"})
    assert writable((), {CHANGE_FEED: "false", LAYOUT: json.dumps({"cluster_by": [], "partition_by": []})})
    assert not writable((), {LAYOUT: json.dumps({"partition_by": ["day"]})})
