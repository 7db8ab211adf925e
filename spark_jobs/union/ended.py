"""A union that `into` no longer names: readers must not go on reading rows that no shard has.

Its rows are taken out of it. If no other destination goes into it, its log is removed, and with it the table, which
has nothing of its own: a reader then has an error, and not a table without rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from cdc_core.errors import LakeError
from cdc_core.schema.names import full_name, split_name
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.folders import folder_of, name_of
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import SHARDS, Union
from spark_jobs.union.files import files_of_union
from spark_jobs.union.publish import UNION, withdraw


def end(lake: Lake, union: Union) -> str:
    """Ends a union of the lake's destination. Returns what was done, or "" if there is no such table. Killed anywhere,
    it may be done again. Raises LakeError."""
    done = withdraw(lake, union)
    if done is None:
        return ""
    removed, left = done
    said = f"`into` no longer has {union.table}: {removed} files of {lake.unions.destination} are not in it any more"
    shards = f"{lake.path(*split_name(union.table))}/{SHARDS}"
    if left or {*lake.folders_in(shards)} - {folder_of(lake.unions.destination)}:
        return f"{said}. Other destinations go into it."
    path = f"{lake.path(*split_name(union.table))}/_delta_log"
    try:
        DeltaStorageHandler(path, lake.storage or None).delete_dir("")
    except (DeltaError, OSError) as error:
        hint = "Remove this folder: nothing in it is needed, and readers would find a table without rows."
        raise LakeError(f"the log of an ended union stays: {first_line(error)}", place=path, hint=hint) from error
    return f"{said}, and its log was removed. Readers of {path.removesuffix('/_delta_log')} have an error now."


def ended(lake: Lake, destination: str) -> Iterator[tuple[str, str]]:
    """Yields the unions that `into` does not name and that have rows of the destination all the same, each with the
    path of its log. Raises LakeError for a lake that cannot be read."""
    known = {one.table for one in lake.unions.all}
    for folder in lake.folders():
        table, path = full_name(*map(name_of, folder.split("/"))), f"{lake.root}/{folder}"
        if table not in known and _has_rows(lake, path, f"{SHARDS}/{folder_of(destination)}/"):
            yield table, f"{path}/_delta_log"


def _has_rows(lake: Lake, path: str, below: str) -> bool:
    """Whether the path has a union with files there. A table that cannot be read has other trouble."""
    try:
        if not DeltaTable.is_deltatable(path, lake.storage or None):
            return False
        table = lake.open(path)
        return UNION in table.metadata().configuration and any(
            one.path.startswith(below) for one in files_of_union(table)
        )
    except (DeltaError, OSError):
        return False
