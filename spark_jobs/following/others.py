"""The error for a table that another run writes: a run that merges its log leaves the table to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict


class TakenOver(LakeError):
    """Another run writes the merged table: one that follows a statement, copies it, or merges the same log."""

    def __init__(self, path: str) -> None:
        hint = "No action needed: its log is merged when that run ends."
        super().__init__("another run writes the merged table", place=path, hint=hint)


@contextmanager
def leaving(lake: Lake, fence: Fence, path: str) -> Iterator[None]:
    """Raises TakenOver in place of an error that another writer of the table at `path` caused, and not the table."""
    try:
        yield
    except TableStopped:
        raise
    except LakeError as error:
        state = None if is_conflict(error) else lake.state(path, "")
        if is_conflict(error) or (state is not None and not fence.owns(state)):
            fence.leave(path)
            raise TakenOver(path) from error
        raise
