"""Chooses the statement that brings one table's changes, by their counts and the table's state."""

from __future__ import annotations

from spark_jobs.changes.table_changes import Changes, OfClaim, SeenChanges
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.write.statements import append_rows, append_upserts, merge_copies, merge_keyed, merge_last

_INTEGERS = {"tinyint", "smallint", "int", "bigint", "decimal(20,0)"}
_PRUNED_BYTES = 8 << 20  # Spark reads that much in about the time that it compiles the code for a new range of keys


def statement(
    path: str, changes: Changes, state: TableState, seen: SeenChanges, between: tuple[int, int] | None = None
) -> str:
    """Returns one statement, for one commit. `seen`: the changes as Spark reads them; `between`: their `key_range`."""
    rows, key, columns = changes.net(seen, path, state), changes.key, changes.columns_in(state)
    names = [column.name for column in columns]
    if not key:
        return append_rows(path, rows, names) if changes.counts.insert_only else merge_copies(path, rows, columns)
    if changes.by_images(state):
        return merge_last(path, rows, names, key, state.own, between, changes.dropped_in(state))
    # Of a dead run, a late MERGE by key changes nothing, but a late append would: the service refuses its rows then.
    if state.fresh and isinstance(changes.source, OfClaim):
        return append_upserts(path, rows, names)
    return merge_keyed(path, rows, names, key, deletes=bool(changes.counts.deletes), between=between)


def key_range(lake: Lake, path: str, changes: Changes, state: TableState) -> tuple[int, int] | None:
    """Returns the changes' range of keys, or None if it would not spare Spark enough files: its bounds are constants in
    generated code, which Spark compiles again for each batch."""
    key, low, high = changes.key, changes.counts.min_key, changes.counts.max_key
    if low is None or high is None or len(key) != 1 or not spares_files(lake, path, key[0], low, high, state):
        return None
    return low, high


def spares_files(lake: Lake, path: str, key: str, low: int, high: int, state: TableState) -> bool:
    """Whether bounds of a key of one column spare Spark enough files."""
    kind = next((column.type for column in state.columns if column.name == key), "")
    return kind in _INTEGERS and lake.bytes_outside(path, key, low, high) >= _PRUNED_BYTES
