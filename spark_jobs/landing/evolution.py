"""Decides how a definition changes a table's change log, and which tables cannot be landed: pure.

A log takes new columns. Columns that the source dropped stay, and are NULL from then on. After a column changes its
type, or its name in case alone, the log starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import NAMES
from spark_jobs.lake.types import LakeColumn, needs_mapping, spark_type


@dataclass(frozen=True, slots=True)
class Evolution:
    """`added`: columns that the log lacks. `anew`: why it cannot take the rows and must start again, or ""."""

    added: tuple[pa.Field, ...] = ()
    anew: str = ""


def evolution(old: Sequence[LakeColumn], new: Sequence[pa.Field]) -> Evolution:
    """Returns the change from a log's columns to a read's."""
    types = {column.name: column.type for column in old}
    spelled = {column.name.lower(): column.name for column in old}
    added = []
    for field in new:
        kind, before = spark_type(field.type), spelled.get(field.name.lower(), field.name)
        if before != field.name:
            return Evolution(anew=f"column {before!r} is {field.name!r} now")
        if field.name not in types:
            added.append(field)
        elif types[field.name] != kind:
            return Evolution(anew=f"column {field.name!r} was {types[field.name]} and is {kind} now")
    return Evolution(tuple(added))


def why_not(schema: TableSchema) -> str:
    """Returns why a table cannot be landed and is merged instead, or ""."""
    names = [column.name for column in schema.shown]
    taken = next((name for name in names if name.lower() in NAMES), None)
    if taken is not None:
        return f"its column {taken!r} has the name of the log's own column"
    if needs_mapping([LakeColumn(name, "") for name in names]):
        return "a column's name needs Delta's column mapping, which delta-rs does not write"
    return ""
