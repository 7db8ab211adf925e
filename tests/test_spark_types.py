"""spark_jobs.types and spark_jobs.statements: names, types and changed definitions. No Spark needed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from cdc_core.errors import TableStopped
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.defaults import backfill
from spark_jobs.statements import merge_keyed
from spark_jobs.types import (
    LakeColumn,
    added_columns,
    check_key,
    lake_columns,
    literal,
    needs_mapping,
    quote,
    spark_type,
)

ID, NAME = LakeColumn("id", "bigint"), LakeColumn("name", "string")


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
    """The mapping of docs/architecture.md."""
    assert spark_type(arrow) == delta


def test_an_unsigned_type_is_refused() -> None:
    """Spark has none: it is never narrowed in silence."""
    with pytest.raises(ValueError, match="uint64"):
        spark_type(pa.uint64())


def test_a_column_may_come_anywhere() -> None:
    """Added columns are found whatever their place; moved ones are no change."""
    new = LakeColumn("new", "int")
    assert added_columns([ID, NAME], [ID, new, NAME], "s.t") == (new,)
    assert added_columns([ID, NAME], [NAME, ID], "s.t") == ()


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ([ID], "'name' .* is gone"),
        ([ID, LakeColumn("title", "string")], "'name' .* was renamed"),
        ([LakeColumn("id", "int"), NAME], "'id' was bigint and is int now"),
    ],
)
def test_any_other_change_stops(new: list[LakeColumn], words: str) -> None:
    """Named with the column, what it was and what it is."""
    with pytest.raises(TableStopped, match=words):
        added_columns([ID, NAME], new, "s.t")


def test_a_changed_key_stops() -> None:
    """The old and the new one are named."""
    check_key(["id"], ["id"], "s.t")
    with pytest.raises(TableStopped, match=r"was \(id\) and is \(none\)"):
        check_key(["id"], [], "s.t")


@pytest.mark.parametrize(("names", "words"), [(["a", "A"], "differ only in case"), (["_sluice_op"], "reserved")])
def test_names_that_delta_cannot_hold_stop(names: list[str], words: str) -> None:
    """Fails closed instead of mixing two columns up."""
    table = TableSchema("s", "t", tuple(Column(name, 3, 0) for name in names))
    with pytest.raises(TableStopped, match=words):
        lake_columns(pa.schema([(name, pa.int32()) for name in names]), table)


def test_odd_names_are_quoted_and_mapped() -> None:
    """Backticks and quotes cannot leave their identifier or literal."""
    assert quote("a`b") == "`a``b`"
    assert literal("it's \\ so") == "'it\\'s \\\\ so'"
    assert needs_mapping([LakeColumn("a b", "int")])
    assert not needs_mapping([LakeColumn("größe-1", "int")])


def test_an_insert_only_merge_touches_nothing_else() -> None:
    """One pass: no clause for matched rows, and the key's range prunes files."""
    counts = {"insert_only": True, "deletes": 0, "min_key": 5, "max_key": 9}
    statement = merge_keyed("/l/s/t", "v", ["id", "x"], ["id"], counts, prune=True)
    assert "WHEN MATCHED" not in statement
    assert "t.`id` BETWEEN 5 AND 9" in statement


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Column("c", 254, 16, nullable=False, charset=63, column_type="uuid"), "string"),
        (Column("c", 17, 0, nullable=False, column_type="timestamp", as_text=True), "string"),
        (Column("c", 255, 4, nullable=False, column_type="geometry"), "struct<srid:bigint,wkb:binary>"),
    ],
)
def test_what_old_rows_have_in_a_new_column_is_not_guessed(column: Column, kind: str) -> None:
    """A type without a text that is known to be its zero stops the table; a column that may be NULL is NULL there."""
    lake = LakeColumn("c", kind)
    with pytest.raises(TableStopped, match="what its old rows have is not known"):
        backfill(TableSchema("s", "t", (column,)), (lake,))

    assert backfill(TableSchema("s", "t", (replace(column, nullable=True),)), (lake,)) == {}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("c", 10, 0, nullable=False, column_type="date", as_text=True), "0000-00-00"),
        (Column("c", 18, 0, nullable=False, column_type="datetime", as_text=True), "0000-00-00 00:00:00"),
        (Column("c", 18, 2, nullable=False, column_type="datetime(2)", as_text=True), "0000-00-00 00:00:00.00"),
        (Column("c", 10, 0, column_type="date", default="2024-00-00", as_text=True), "2024-00-00"),
    ],
)
def test_dates_as_text_have_the_servers_zero(column: Column, text: str) -> None:
    """In rows that were there before the column."""
    found = backfill(TableSchema("s", "t", (column,)), (LakeColumn("c", "string"),))

    assert found == {"c": f"CAST('{text}' AS string)"}
