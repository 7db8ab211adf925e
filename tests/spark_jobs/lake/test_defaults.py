"""spark_jobs.lake.defaults: the values of columns that no row image has. They need no Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_core.errors import TableStopped
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.defaults import insert_defaults, old_row_values
from spark_jobs.lake.types import LakeColumn


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Column("c", 254, 16, nullable=False, charset=63, column_type="uuid"), "string"),
        (Column("c", 17, 0, nullable=False, column_type="timestamp", as_text=True), "string"),
        (Column("c", 255, 4, nullable=False, column_type="geometry"), "struct<srid:bigint,wkb:binary>"),
    ],
)
def test_what_old_rows_have_in_a_new_column_is_not_guessed(column: Column, kind: str) -> None:
    """A NOT NULL type without a known zero stops the table; a nullable column is NULL there."""
    lake = LakeColumn("c", kind)
    with pytest.raises(TableStopped, match="its values in old rows are unknown"):
        old_row_values(TableSchema("s", "t", (column,)), (lake,))

    assert old_row_values(TableSchema("s", "t", (replace(column, nullable=True),)), (lake,)) == {}


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
    """In rows older than the column."""
    found = old_row_values(TableSchema("s", "t", (column,)), (LakeColumn("c", "string"),))

    assert found == {"c": f"CAST('{text}' AS string)"}


def test_a_decimal_that_is_text_has_the_zero_of_its_scale() -> None:
    """Old rows, and inserted ones whose image leaves it out."""
    schema = TableSchema("s", "t", (Column("c", 246, (65 << 8) + 30, nullable=False, column_type="decimal(65,30)"),))
    lake = (LakeColumn("c", "string"),)
    expected = {"c": f"CAST('0.{'0' * 30}' AS string)"}
    assert old_row_values(schema, lake) == insert_defaults(schema, lake) == expected


def test_the_catalogue_rounds_the_default_of_a_float() -> None:
    """To six digits: five are all that it had."""
    column = Column("c", 4, 4, column_type="float", default="1.2345")
    lake = (LakeColumn("c", "float"),)
    assert old_row_values(TableSchema("s", "t", (column,)), lake) == {"c": "CAST('1.2345' AS float)"}
    with pytest.raises(TableStopped, match="its values in old rows are unknown"):
        old_row_values(TableSchema("s", "t", (replace(column, default="3.14159"),)), lake)
