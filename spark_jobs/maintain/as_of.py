"""Finds a Delta table's version at a moment, by the times at which its commits were written."""

from __future__ import annotations

from datetime import UTC, datetime

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileType, PyFileSystem

from spark_jobs.lake.tables import Lake


def as_of(lake: Lake, path: str, moment: datetime) -> DeltaTable | None:
    """Returns the table as it was then; None if it is younger, or if its Delta log does not reach back."""
    table = lake.open(path)
    try:
        table.load_as_version(moment)
    except DeltaError:
        return None
    written = committed_at(lake, path, table.version())
    return table if written is not None and written <= moment else None


def committed_at(lake: Lake, path: str, version: int) -> datetime | None:
    """Returns when a version was written, by the store's clock; None if its commit is gone."""
    store = PyFileSystem(DeltaStorageHandler(path, lake.storage or None))
    info = store.get_file_info([f"_delta_log/{version:020d}.json"])[0]
    if info.type is not FileType.File or info.mtime_ns is None:
        return None
    return datetime.fromtimestamp(info.mtime_ns / 1e9, UTC)


def is_younger(table: DeltaTable, moment: datetime) -> bool:
    """Whether the table was made later."""
    return datetime.fromtimestamp((table.metadata().created_time or 0) / 1000, UTC) > moment
