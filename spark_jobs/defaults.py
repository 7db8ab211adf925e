"""What rows have in a column that nobody wrote: those that were there before it came, and those whose image leaves it
out.

MySQL gives old rows the column's default, or without one in a NOT NULL column the type's own zero. A default that only
the server can evaluate, or of a kind not rendered here, stops the table: nothing is guessed.
The catalogue tells today's default: one that was changed since the column came is not noticed, and where the catalogue
does not fit the event a nullable column's old rows are NULL.
"""

from __future__ import annotations

from contextlib import suppress

from cdc_core.errors import TableStopped
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.types import LakeColumn, literal

UNKNOWN_DEFAULT = "SLUICE_UNKNOWN_DEFAULT"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_BIT, _YEAR, _ENUM, _SET, _JSON, _STRINGS = 16, 13, 247, 248, 245, (15, 140, 141, 252, 254)
_DATE, _DATETIME = 10, 18


def backfill(schema: TableSchema, added: tuple[LakeColumn, ...]) -> dict[str, str]:
    """SQL expressions for the added columns that old rows are not NULL in. Raises TableStopped for what is unknown."""
    columns = {column.name: column for column in schema.columns}
    found = {column.name: _expression(columns[column.name], column, schema.name) for column in added}
    return {name: text for name, text in found.items() if text is not None}


def of_inserts(schema: TableSchema, columns: tuple[LakeColumn, ...]) -> dict[str, str]:
    """What an inserted row has in columns that its image leaves out, as SQL by column. Where it is not known the
    expression raises UNKNOWN_DEFAULT: only a row that needs it stops the table."""
    return {
        lake.name: _inserted(column, lake, schema.name) for column, lake in zip(schema.columns, columns, strict=True)
    }


def _inserted(column: Column, lake: LakeColumn, table: str) -> str:
    if column.column_type:
        with suppress(TableStopped):
            return _expression(column, lake, table) or f"CAST(NULL AS {lake.type})"
    return f"CAST(raise_error({literal(f'{UNKNOWN_DEFAULT}: {column.name}')}) AS {lake.type})"


def _expression(column: Column, lake: LakeColumn, table: str) -> str | None:
    if column.default is None and column.nullable:
        return None
    value = None if column.default_expression else column.default if column.default is not None else _zero(column, lake)
    if value is None or (column.default is None and not column.column_type) or not _renders(column, lake, value):
        told = f"default {column.default}" if column.default is not None else "not null, without a default"
        hint = "Move the Delta table away and build it again from the source; then lift the stop of this table."
        message = f"column {column.name!r} came ({told}), and what its old rows have is not known here"
        raise TableStopped(message, place=table, hint=hint)
    return f"CAST({literal(value)} AS {lake.type})"


def _zero(column: Column, lake: LakeColumn) -> str | None:
    """What a NOT NULL column without a default gives to rows that are there."""
    if lake.type.startswith(_NUMBERS) and column.type_code not in (_BIT, _YEAR):
        return "0"
    if column.as_text:
        fraction = ".000000"[: column.meta + 1] if column.meta else ""
        return "0000-00-00" if column.type_code == _DATE else f"0000-00-00 00:00:00{fraction}"
    if column.type_code == _ENUM:
        return column.labels[0] if column.labels else None
    return "" if lake.type == "string" and column.type_code != _JSON else None


def _renders(column: Column, lake: LakeColumn, value: str) -> bool:
    """Whether Spark reads the catalogue's text as MySQL does."""
    if lake.type in ("date", "timestamp_ntz"):
        return value[:4] != "0000" and "-00" not in value[:10]
    if lake.type == "string":
        if column.as_text:
            return column.type_code in (_DATE, _DATETIME)  # a TIMESTAMP's default is told in the session's time zone
        return not column.is_address and column.type_code in (*_STRINGS, _ENUM, _SET, 246)
    return lake.type.startswith(_NUMBERS) and column.type_code not in (_BIT, _YEAR, 19)
