"""Effects as the service makes them of a statement's text: parsed, with the definitions before and after."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.conventions import Conventions, ServerCharset
from cdc_core.schema.ddl import Effect
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.interpreter import definition_after
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.types import LakeColumn, lake_columns

_COLLATIONS = {"utf8mb4_0900_ai_ci": 255, "utf8mb4_bin": 46, "latin1_swedish_ci": 8, "ascii_general_ci": 11}
MYSQL8 = Conventions(
    mariadb=False,
    widths=False,
    explicit_timestamps=True,
    collations=_COLLATIONS,
    charsets={
        "utf8mb4": ServerCharset("utf8mb4", "utf8mb4_0900_ai_ci", 4),
        "latin1": ServerCharset("latin1", "latin1_swedish_ci", 1),
        "ascii": ServerCharset("ascii", "ascii_general_ci", 1),
    },
    charset_names={name: name.partition("_")[0] for name in _COLLATIONS},
)


def created(text: str) -> TableSchema:
    """The definition that a CREATE TABLE makes in the database `shop`."""
    return _after(TableSchema("shop", "", (), (), "", "utf8mb4_0900_ai_ci"), text)[0]


def altered(before: TableSchema, text: str) -> tuple[Effect, ...]:
    """A statement's effects on the table, each with the definitions around it."""
    return _after(before, text)[1]


def lake_of(schema: TableSchema) -> tuple[LakeColumn, ...]:
    """The columns of a definition as the lake has them."""
    return lake_columns(pa.schema(arrow_fields(schema)), schema)


def _after(schema: TableSchema, text: str) -> tuple[TableSchema, tuple[Effect, ...]]:
    found, now = [], schema
    for effect in effects(text, "shop")[0]:
        known = definition_after(now, effect, MYSQL8)
        found.append(replace(effect, before=now, schema=known))
        now = known or now
    return now, tuple(found)
