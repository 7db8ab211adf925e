"""Chooses the statement that applies one table's net changes, by the plan's counts and the table's state."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_core.client.changes import TableRead
from spark_jobs.changes.net import CLAIMED, ImageQuery, grouped
from spark_jobs.changes.whole_rows import whole_copies, whole_rows
from spark_jobs.lake.defaults import insert_defaults
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, lake_columns
from spark_jobs.write.statements import append_copies, append_upserts, merge_copies, merge_keyed, merge_last

_INTEGERS = {"tinyint", "smallint", "int", "bigint", "decimal(20,0)"}
_PRUNED_BYTES = 8 << 20  # Spark reads that much in about the time that it compiles the code for a new range of keys


def statement(lake: Lake, path: str, read: TableRead, state: TableState, view: str) -> str:
    """Returns one statement, for one commit. `view` is a temporary view over the net changes, or over all images if the
    table has columns of Sluice's."""
    whole, key = lake_columns(read.schema, read.table, read.counts.partial), read.table.primary_key
    there = {column.name for column in state.columns}
    columns = tuple(column for column in whole if column.name in there)  # a policy may leave columns out
    names = [column.name for column in columns]
    if state.own:
        kept = sorted(there.difference(names))
        rows = ImageQuery(view, columns, key, form=CLAIMED).last(state.own, anew=bool(kept))
        return merge_last(path, rows, names, key, state.own, key_range(lake, path, read, state), kept)
    if read.counts.partial:
        view = _whole(path, read, view, columns, insert_defaults(read.table, whole))
    if not key:
        if read.counts.insert_only:
            return append_copies(path, view, names)
        return merge_copies(path, grouped(view, columns), columns)
    if state.fresh:
        return append_upserts(path, view, names)
    deletes, between = bool(read.counts.deletes), key_range(lake, path, read, state)
    return merge_keyed(path, view, names, key, deletes=deletes, between=between)


def _whole(path: str, read: TableRead, view: str, columns: tuple[LakeColumn, ...], defaults: Mapping[str, str]) -> str:
    """Returns a query in place of the view, for images that leave columns out."""
    key = read.table.primary_key
    if not key:
        return whole_copies(view, columns, defaults)
    return whole_rows(path, view, columns, key, defaults, gone=bool(read.counts.deletes))


def key_range(lake: Lake, path: str, read: TableRead, state: TableState) -> tuple[int, int] | None:
    """Returns the batch's range of keys, or None if it would not spare Spark enough files: its bounds are constants in
    generated code, which Spark compiles again for each batch."""
    key, low, high = read.table.primary_key, read.counts.min_key, read.counts.max_key
    if low is None or high is None or len(key) != 1:
        return None
    kind = next((column.type for column in state.columns if column.name == key[0]), "")
    if kind not in _INTEGERS or lake.bytes_outside(path, key[0], low, high) < _PRUNED_BYTES:
        return None
    return low, high
