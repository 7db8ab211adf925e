"""Values of columns that no row image has: in rows older than an added column, and in inserted rows whose image leaves
a column out.

MySQL gives old rows the column's default; a NOT NULL column without one gives them the type's own zero. A default that
only the server can evaluate, or of a type that is not rendered here, stops the table: nothing is guessed.
The catalogue has today's default. If the column came without a statement, one that changed since goes unnoticed; where
the catalogue does not fit the event, a nullable column's old rows are NULL.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from decimal import Decimal

from cdc_core.errors import UNNAMED, TableStopped
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.sql import literal
from spark_jobs.lake.types import LakeColumn

UNKNOWN_DEFAULT = "SLUICE_UNKNOWN_DEFAULT"  # how a statement says in Spark that it needs a default it does not know
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_BIT, _YEAR, _ENUM, _SET, _STRINGS = 16, 13, 247, 248, (15, 140, 141, 252, 254)
_NEWDECIMAL, _TIME = 246, 19
_DATE, _DATETIME = 10, 18
_SHOWN_DIGITS = 6


def old_row_values(schema: TableSchema, added: tuple[LakeColumn, ...]) -> dict[str, str]:
    """Returns SQL by column: the values of old rows in the added columns that are not NULL there.

    Raises TableStopped for a column whose values are unknown.
    """
    columns = {column.name: column for column in schema.columns}
    found = {column.name: _expression(columns[column.name], column, schema.name) for column in added}
    return {name: text for name, text in found.items() if text is not None}


def insert_defaults(schema: TableSchema, columns: tuple[LakeColumn, ...]) -> dict[str, str]:
    """Returns SQL by column: the value of an inserted row in a column that its image leaves out.

    An unknown default is an expression that raises UNKNOWN_DEFAULT, so that only a row that needs it stops the table.
    """
    pairs = zip(schema.shown, columns, strict=True)
    return {lake.name: _insert_default(column, lake, schema.name) for column, lake in pairs}


def _insert_default(column: Column, lake: LakeColumn, table: str) -> str:
    if column.column_type:
        with suppress(TableStopped):
            return _expression(column, lake, table) or f"CAST(NULL AS {lake.type})"
    return f"CAST(raise_error({literal(f'{UNKNOWN_DEFAULT}: {column.name}')}) AS {lake.type})"


def _expression(column: Column, lake: LakeColumn, table: str) -> str | None:
    if column.default is None and column.nullable:
        return None
    unknown = column.default_expression or column.changes_values
    value = None if unknown else column.default if column.default is not None else _zero(column, lake)
    if value is None or (column.default is None and not column.column_type) or not _renders(column, lake, value):
        default = f"default {column.default}" if column.default is not None else "NOT NULL without a default"
        hint = f"Reload the table from the source, which resumes it: sluice copy {UNNAMED} {table}."
        message = f"column {column.name!r} was added ({default}), and its values in old rows are unknown"
        raise TableStopped(message, place=table, hint=hint)
    return f"CAST({literal(value)} AS {lake.type})"


def _zero(column: Column, lake: LakeColumn) -> str | None:
    """Returns the value of old rows in a NOT NULL column without a default, or None if it is unknown."""
    if lake.type.startswith(_NUMBERS) and column.type_code not in (_BIT, _YEAR):
        return "0"
    if column.as_text:
        fraction = ".000000"[: column.meta + 1] if column.meta else ""
        return "0000-00-00" if column.type_code == _DATE else f"0000-00-00 00:00:00{fraction}"
    if column.type_code == _NEWDECIMAL:  # of more digits than Spark's type has
        return f"{Decimal(0):.{column.meta & 255}f}"
    if column.type_code == _ENUM:
        return column.labels[0] if column.labels else None
    return "" if lake.type == "string" and column.type_code in (*_STRINGS, _SET) else None


def _renders(column: Column, lake: LakeColumn, value: str) -> bool:
    """Whether Spark's CAST reads the catalogue's text as MySQL does."""
    if lake.type in ("date", "timestamp_ntz"):
        return _is_day(value[:10])
    if lake.type == "string":
        if column.as_text:
            return column.type_code in (
                _DATE,
                _DATETIME,
            )  # the catalogue has a TIMESTAMP's default in the session's time zone
        return not column.is_address and column.type_code in (*_STRINGS, _ENUM, _SET, _NEWDECIMAL)
    if lake.type == "float":  # the catalogue rounds it to six digits
        return len(Decimal(value).normalize().as_tuple().digits) < _SHOWN_DIGITS
    return lake.type.startswith(_NUMBERS) and column.type_code not in (_BIT, _YEAR, _TIME)


def _is_day(text: str) -> bool:
    """Whether the text is a date that exists, and no zero date."""
    with suppress(ValueError):
        return bool(date.fromisoformat(text))
    return False
