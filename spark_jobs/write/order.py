"""The order for one commit of a small table: plain values, which Spark hands to its tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from cdc_core.client.changes import RowsDoor
from spark_jobs.changes.table_changes import Changes
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.features import BY_DELTA_RS, CHANGE_FEED, FEED, MAPPING
from spark_jobs.lake.layout import Layout
from spark_jobs.lake.own_columns import NO_OWN, Own
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn

MOST_ROWS = 20_000  # of a table's share; Spark's own MERGE shares more among its tasks
MOST_BYTES = 16 << 20  # of a table; a larger one gets deletion vectors, which delta-rs does not write
SQL, FUSED = "sql", "fused"  # what makes a commit: a statement of its own, or the job of many tables
_FLOATS = ("float", "double")
MOST_FILE_ROWS = 2_000_000  # of a table: files that compress well are large in a task's memory
SENT_BYTES = 32 << 20  # of Arrow, for one table's share: a task, or Spark's driver, holds them until the commit


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
    """The images of a `range` in `version` of the change log at `path`. `emptied`: when the table was last emptied
    before them, in microseconds; None if that is unknown."""

    path: str
    version: int
    range: VersionRange
    emptied: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One commit of the table at `path`: `changes`, with `version` of the app id and `note` as user metadata. The run
    owns the table while its fence is `token`. `columns` are the table's columns that the changes have, `key` its
    primary key, `own` its columns of Sluice's. `left_out`: keys whose rows are not written."""

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
    left_out: pa.Table | None = field(default=None, repr=False)


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


def form_of(changes: Changes, state: TableState) -> Form | None:
    """Returns the form in which delta-rs writes the changes, or None if they need a statement of Spark: there are many,
    images are partial, Spark compares the keys or copies differently from delta-rs, or the table has features that
    delta-rs cannot write, or keeps dropped columns without images that say which of its rows came anew."""
    if changes.rows > MOST_ROWS or changes.counts.partial or not writable(state.features, state.properties):
        return None
    key, columns = changes.key, changes.columns
    if key and changes.dropped_in(state) and not changes.by_images(state):
        return None
    if not key:
        if changes.counts.insert_only:
            return Form.INSERTED
        return None if any(_is_nested(column) or _has_floats(column) for column in columns) else Form.COPIES
    return None if any(_has_floats(column) for column in columns if column.name in key) else Form.KEYED


def writable(features: Collection[str], properties: Mapping[str, str]) -> bool:
    """Whether delta-rs writes such a table as Spark does, with its change feed. It would write some that have other
    features, and lose rows; it does not cluster, and takes a feed's property in capitals for false."""
    if not (BY_DELTA_RS | {FEED}).issuperset(features) or properties.get(MAPPING, "none") != "none":
        return False
    if properties.get(CHANGE_FEED, "false") not in ("true", "false"):
        return False
    layout = Layout.of(properties)
    return not (layout.cluster_by or layout.partition_by)


def _has_floats(column: LakeColumn) -> bool:
    return any(kind in column.type for kind in _FLOATS)


def _is_nested(column: LakeColumn) -> bool:
    return column.type.startswith(("array", "struct"))
