"""Another writer of a table, which a run that merges its log leaves to it."""

from __future__ import annotations

from cdc_core.errors import LakeError
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict


class TakenOver(LakeError):
    """Another run writes the merged table: one that follows a statement, copies it, or merges the same log."""

    def __init__(self, path: str) -> None:
        hint = "No action needed: its log is merged when that run ends."
        super().__init__("another run writes the merged table", place=path, hint=hint)


def is_anothers(lake: Lake, fence: Fence, path: str, error: LakeError) -> bool:
    """Whether the error comes of another writer of the table at `path`, and not of the table."""
    if is_conflict(error):
        return True
    state = lake.state(path, "")
    return state is not None and not fence.owns(state)
