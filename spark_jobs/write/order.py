"""The order for one commit of a small table: plain values, which Spark hands to its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cdc_core.client.changes import RowsDoor, TableRead
from spark_jobs.lake.own_columns import NO_OWN, Own
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, lake_columns

MOST_ROWS = 20_000  # of a table's share; Spark's own MERGE shares more among its tasks
MOST_BYTES = 16 << 20  # of a table; a larger one gets deletion vectors, which delta-rs does not write
_FLOATS = ("float", "double")
MOST_FILE_ROWS = 2_000_000  # of a table: files that compress well are large in a task's memory
SENT_BYTES = 32 << 20  # of Arrow, for one table's share: a task, or Spark's driver, holds them until the commit
VECTORS = "deletionVectors"
_MAPPING = "delta.columnMapping.mode"
UNWRITABLE = {VECTORS, "columnMapping"}  # features of a table that delta-rs cannot write


class Engine(StrEnum):
    """What writes a claim's small tables."""

    AUTO = "auto"  # one job of Spark, whose tasks commit many tables
    SQL = "sql"  # a statement of Spark for each, as for large ones


class Form(StrEnum):
    """How changes become rows."""

    KEYED = "keyed"  # by key: rows are added, changed and removed
    INSERTED = "inserted"  # without a key: rows are only added
    COPIES = "copies"  # without a key: copies of rows are added and removed
    VERSIONS = "versions"  # by key: versions of rows are closed and opened, in a history


@dataclass(frozen=True, slots=True)
class Claimed:
    """The rows of a claim that the service hands out for `tickets`: net changes, or all `images`."""

    door: RowsDoor
    tickets: tuple[bytes, ...]
    images: bool = False


@dataclass(frozen=True, slots=True)
class Logged:
    """The images of `epoch` in `version` of the change log at `path`, after version `after` up to `upto`. `emptied`:
    when the table was last emptied before them, in microseconds; None if that is unknown."""

    path: str
    version: int
    epoch: int
    after: int | None
    upto: int
    emptied: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One commit of the table at `path`: `changes`, with `version` of the app id and `note` as user metadata. The run
    owns the table while its fence is `token`. `columns` are the table's columns that the changes have, `key` its
    primary key, `own` its columns of Sluice's."""

    path: str
    app: str
    version: int
    note: str
    token: str
    form: Form
    columns: tuple[str, ...]
    key: tuple[str, ...]
    changes: Claimed | Logged
    own: Own = NO_OWN
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an order: the version of its Delta commit and the rows that it wrote, of so many `sources`; or
    `why` it has no commit."""

    version: int = -1
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    sources: int = 0
    why: str = ""


def form_of(read: TableRead, state: TableState) -> Form | None:
    """Returns the form in which delta-rs writes the changes, or None if they need a statement of Spark: there are many,
    images are partial, Spark compares the keys or copies differently from delta-rs, or the table has features that
    delta-rs cannot write."""
    if read.rows > MOST_ROWS or read.counts.partial or UNWRITABLE & state.features:
        return None
    if state.properties.get(_MAPPING, "none") != "none":
        return None
    key = set(read.table.primary_key)
    columns = lake_columns(read.schema, read.table)
    if not key:
        if read.counts.insert_only:
            return Form.INSERTED
        return None if any(_is_nested(column) or _has_floats(column) for column in columns) else Form.COPIES
    return None if any(_has_floats(column) for column in columns if column.name in key) else Form.KEYED


def _has_floats(column: LakeColumn) -> bool:
    return any(kind in column.type for kind in _FLOATS)


def _is_nested(column: LakeColumn) -> bool:
    return column.type.startswith(("array", "struct"))
