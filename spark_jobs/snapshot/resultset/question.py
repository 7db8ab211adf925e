"""Builds the SELECT, so that the answer has the whole value of each column.

The answers are in the binary protocol: numbers and moments arrive in their own form, with all digits. Texts arrive in
the column's own character set, and ENUM and SET as numbers, because the decoder converts both to the lake's values.
"""

from __future__ import annotations

from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.sql import quote

AS_STORED = "SET character_set_results = NULL"  # the server converts no answer


def question(schema: TableSchema, where: str = "") -> str:
    """Returns a SELECT of the rows for which the condition holds, the columns in the definition's order,
    without those that are computed."""
    wanted = ", ".join(_expression(column) for column in schema.selected)
    rows = f"{quote(schema.database)}.{quote(schema.table)}"
    index = f" FORCE INDEX ({quote(schema.key_index)})" if schema.primary_key else ""
    return f"SELECT {wanted} FROM {rows}" + (f"{index} WHERE {where}" if where else "")  # noqa: S608


def _expression(column: Column) -> str:
    name = quote(column.source_name)
    if column.type_code in (Type.ENUM, Type.SET):
        return f"CAST({name} AS UNSIGNED)"
    if column.type_code == Type.NEWDECIMAL and "zerofill" in column.column_type.lower():
        return f"{name} + 0"
    return name
