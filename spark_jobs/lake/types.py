"""A source table's columns as Delta's: names and types in SQL.

The Arrow schema of a plan (docs/types.md) decides a column's type; this module renders it in SQL.
Every column is nullable in the lake, whatever the source says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from deltalake import Field
from deltalake.schema import PrimitiveType

from cdc_core.errors import TableStopped
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.sql import literal, quote

OP, COUNT, GROUP, SEQUENCE = "_sluice_op", "_sluice_count", "_sluice_group", "_sluice_sequence"
RESERVED = (OP, COUNT, GROUP, SEQUENCE, "_sluice_journal", "_sluice_position", "_sluice_row", "_sluice_timestamp")
_DELTA_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")  # what Parquet's column names cannot hold
_PLAIN = (
    (pt.is_int8, "tinyint"),
    (pt.is_int16, "smallint"),
    (pt.is_int32, "int"),
    (pt.is_int64, "bigint"),
    (pt.is_float32, "float"),
    (pt.is_float64, "double"),
    (pt.is_boolean, "boolean"),
    (pt.is_date32, "date"),
    (pt.is_string, "string"),
    (pt.is_large_string, "string"),
    (pt.is_binary, "binary"),
    (pt.is_large_binary, "binary"),
)


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column as Delta knows it: its name and type in SQL."""

    name: str
    type: str
    comment: str = ""

    @property
    def ddl(self) -> str:
        comment = f" COMMENT {literal(self.comment)}" if self.comment else ""
        return f"{quote(self.name)} {self.type}{comment}"


def spark_type(kind: pa.DataType) -> str:
    """Returns the SQL type of an Arrow type. Raises ValueError for a type that no source column has."""
    if pt.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pt.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pt.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pt.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pt.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in kind)}>"
    for fits, name in _PLAIN:
        if fits(kind):
            return name
    raise ValueError(f"no Delta type for Arrow's {kind}")


def lake_columns(schema: pa.Schema, table: TableSchema, partial: bool = False) -> tuple[LakeColumn, ...]:
    """Returns the source's own columns in a plan's schema. With `partial` each column outside the key is a struct
    there.

    Raises TableStopped for a name that a Delta table cannot have.
    """
    comments = {column.name: column.comment for column in table.columns}
    seen: dict[str, str] = {}
    for name in comments:
        if name.lower() in RESERVED:
            hint = "Rename it at the source: Sluice uses the names that start with _sluice_ itself."
            raise TableStopped(f"column {name!r} has a reserved name", place=table.name, hint=hint)
        if name.lower() in seen:
            message = f"columns {seen[name.lower()]!r} and {name!r} differ only in case, which Delta ignores"
            raise TableStopped(message, place=table.name, hint="Rename one of them at the source.")
        seen[name.lower()] = name
    fields = [field for field in schema if field.name not in RESERVED]
    wrapped = set(schema.names).difference(table.primary_key) if partial else set()
    kinds = {field.name: field.type.field(0).type if field.name in wrapped else field.type for field in fields}
    return tuple(LakeColumn(name, spark_type(kind), comments.get(name, "")) for name, kind in kinds.items())


def delta_field(column: LakeColumn) -> Field | None:
    """Returns the column for delta-rs, or None for a nested type, which needs Spark."""
    if "<" in column.type:
        return None
    name = {sql: delta for delta, sql in _DELTA_NAMES.items()}.get(column.type, column.type)
    return Field(column.name, PrimitiveType(name), metadata={"comment": column.comment} if column.comment else None)


def needs_mapping(columns: Sequence[LakeColumn]) -> bool:
    """Whether a name needs Delta's column mapping. Tables go without where they can: more readers open them."""
    return any(_NEEDS_MAPPING.search(column.name) for column in columns)


def delta_type(kind: Any) -> str:
    """Returns the SQL type of a delta-rs type."""
    if hasattr(kind, "fields"):
        return f"struct<{','.join(f'{field.name}:{delta_type(field.type)}' for field in kind.fields)}>"
    if hasattr(kind, "element_type"):
        return f"array<{delta_type(kind.element_type)}>"
    return _DELTA_NAMES.get(kind.type, str(kind.type))
