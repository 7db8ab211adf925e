"""No file is left out by its statistics: those that delta-rs rounds, and those of Sluice's own writers."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from spark_jobs.lake.statistics import (
    INDEXED,
    ColumnBounds,
    FileBounds,
    exact_statistics,
    exact_statistics_of,
    statistics,
)


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


def test_numbers_of_few_digits_are_found(tmp_path: Path) -> None:
    """By a condition of pyarrow's, in the file of a MERGE; more digits are not rounded, also in columns that the rows
    do not have."""
    kinds = {"id": pa.int64(), "u": pa.decimal128(20, 0), "d": pa.decimal128(30, 10), "big": pa.decimal128(20, 0)}
    schema, much = pa.schema(kinds), Decimal(1234567890123456789)
    rows = pa.table([[1, 2], [Decimal(7), None], [Decimal("-1.5"), None], [much, much]], schema=schema)
    DeltaTable.create(tmp_path, schema)
    table = DeltaTable(tmp_path)
    write_deltalake(table, rows, mode="append", writer_properties=exact_statistics_of(rows, table))
    source = pa.table([[2], [Decimal(8)]], schema=pa.schema([schema.field("id"), schema.field("u")]))
    how = exact_statistics_of(source, table)
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t", writer_properties=how)
    merge.when_matched_update({"u": "s.u"}).execute()
    found = DeltaTable(tmp_path).to_pyarrow_dataset()
    for name, value in (("u", Decimal(7)), ("u", Decimal(8)), ("d", Decimal("-1.5"))):
        assert found.to_table(filter=pc.field(name) == pa.scalar(value, kinds[name])).num_rows == 1
    query = QueryBuilder().register("t", DeltaTable(tmp_path))
    asked = f"SELECT id FROM t WHERE big = CAST('{much}' AS DECIMAL(20, 0))"
    assert pa.table(query.execute(asked).read_all()).num_rows == 2


def _sql(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else "BIGINT"


def test_bounds_are_those_of_a_file() -> None:
    """Over all its row groups; NULLs are counted, and are no bound."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int8()), ("d", pa.binary())])
    bounds = FileBounds(schema)
    bounds.add(pa.table([[5, None], ["x", "y"], [None, None], [b"", b""]], schema=schema))
    bounds.add(pa.table([[-(2**63), 7], ["x", None], [None, None], [b"", b""]], schema=schema))
    assert json.loads(bounds.to_json(4)) == {
        "numRecords": 4,
        "minValues": {"a": -(2**63), "b": "x"},
        "maxValues": {"a": 7, "b": "y"},
        "nullCount": {"a": 1, "b": 1, "c": 4},
    }


@pytest.mark.parametrize(
    ("value", "high"),
    [
        ("x" * 32, "x" * 32),
        ("x" * 33, "x" * 32 + "\U0010ffff"),
        ("x" * 32 + "\U0010ffff" * 2 + "a", "x" * 32 + "\U0010ffff" * 3),
        ("x" * 32 + "\U0010ffff", "x" * 32 + "\U0010ffff"),
    ],
)
def test_long_texts_have_short_bounds(value: str, high: str) -> None:
    """As Delta's own writers shorten them: no greater text begins so."""
    schema = pa.schema([("t", pa.string())])
    bounds = FileBounds(schema)
    bounds.add(pa.table([[value]], schema=schema))
    found = json.loads(bounds.to_json(1))
    assert (found["minValues"]["t"], found["maxValues"]["t"]) == ("x" * 32, high)
    assert high.encode() >= value.encode()


def test_a_column_without_bounds_leaves_the_number_of_rows() -> None:
    """delta-rs would take the bounds for NULL, and find no row."""
    schema = pa.schema([("a", pa.int64()), ("ok", pa.bool_())])
    a = ColumnBounds(1, 2, 0)
    assert json.loads(statistics(schema, 2, {"a": a})) == {"numRecords": 2}
    assert json.loads(statistics(schema, 2, {"a": a, "ok": ColumnBounds(None, None, 1)})) == {"numRecords": 2}
    assert json.loads(statistics(schema, 2, {"a": a, "ok": ColumnBounds(None, None, 2)}))["nullCount"]["ok"] == 2


def test_a_day_that_python_lacks_is_no_bound() -> None:
    """MySQL has the year 0: the file has the number of its rows alone, whichever row group has the day."""
    schema = pa.schema([("d", pa.date32())])
    for days in ([-719900, 0], [0, -719900], [None, -719900]):
        bounds = FileBounds(schema)
        for day in days:
            bounds.add(pa.table([pa.array([day], pa.int32()).cast(pa.date32())], schema=schema))
        assert json.loads(bounds.to_json(2)) == {"numRecords": 2}


def test_later_columns_have_no_statistics() -> None:
    """Of a table that has statistics of its first columns alone."""
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(40)])
    known = {field.name: ColumnBounds(1, 1, 0) for field in schema}
    assert len(json.loads(statistics(schema, 1, known))["minValues"]) == 40
    del known["c32"]
    assert len(json.loads(statistics(schema, 1, known, INDEXED))["minValues"]) == 32
    assert json.loads(statistics(schema, 1, known)) == {"numRecords": 1}
