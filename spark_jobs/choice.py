"""Which statement applies one table's net changes, by what the plan counts and what the table is."""

from __future__ import annotations

from collections.abc import Collection

from cdc_core.client.changes import TableRead
from spark_jobs.defaults import of_inserts
from spark_jobs.lake import Lake, TableState
from spark_jobs.statements import append_copies, append_upserts, merge_copies, merge_keyed
from spark_jobs.types import RESERVED, LakeColumn, lake_columns
from spark_jobs.whole_rows import whole_copies, whole_rows

_INTEGERS = {"tinyint", "smallint", "int", "bigint", "decimal(20,0)"}
_PRUNED_BYTES = 8 << 20  # read in about the time that code is compiled in


def statement(lake: Lake, path: str, read: TableRead, state: TableState, view: str) -> str:
    """One statement, one commit. `view` is a temporary view over the net changes."""
    names = [name for name in read.schema.names if name not in RESERVED]
    key = read.table.primary_key
    if read.counts.get("partial"):
        view = _whole(path, read, view)
    if not key:
        grows = read.counts["insert_only"]
        return append_copies(path, view, names) if grows else merge_copies(path, view, names)
    if state.fresh:
        return append_upserts(path, view, names)
    return merge_keyed(path, view, names, key, read.counts, _prunes(lake, path, read, state))


def _whole(path: str, read: TableRead, view: str) -> str:
    """A query in the view's place where images leave columns out."""
    columns, key = lake_columns(read.schema, read.table, partial=True), read.table.primary_key
    defaults = of_inserts(read.table, columns)
    if not key:
        return whole_copies(view, columns, defaults)
    return whole_rows(path, view, columns, key, defaults, gone=bool(read.counts["deletes"]))


def _prunes(lake: Lake, path: str, read: TableRead, state: TableState) -> bool:
    """Whether the batch's range of keys leaves out files enough: its bounds are constants in generated code, which
    Spark then compiles anew for every batch."""
    key, low, high = read.table.primary_key, read.counts.get("min_key"), read.counts.get("max_key")
    if low is None or high is None or len(key) != 1 or _type_of(state.columns, key[0]) not in _INTEGERS:
        return False
    return lake.bytes_beyond(path, key[0], int(low), int(high)) >= _PRUNED_BYTES


def _type_of(columns: Collection[LakeColumn], name: str) -> str:
    return next((column.type for column in columns if column.name == name), "")
