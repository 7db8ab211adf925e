"""The error for a table that only a copy from the source can repair."""

from __future__ import annotations

from cdc_core.errors import UNNAMED, TableStopped
from spark_jobs.lake.remedy import copy_hint


class CopyNeeded(TableStopped):
    """The lake cannot know the table's rows. Where a run may copy it, it does; else the table stops. Place: the
    table."""

    def __init__(self, reason: str, table: str) -> None:
        super().__init__(reason, place=table, hint=copy_hint(UNNAMED, table))
