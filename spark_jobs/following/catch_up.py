"""Merges a whole log before something else writes the merged table: a DDL statement, or a run that merges claims
without a log.

Otherwise rows from before a statement would meet the columns after it; and rows of the log at or below the version that
such a run writes would count as merged.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.apply.table import Batch
from spark_jobs.following.history.columns import work_of
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows
from spark_jobs.landing.modes import Mode
from spark_jobs.landing.parked import Parking


@dataclass(frozen=True, slots=True)
class CatchUp:
    """For the run of a batch, which owns the table afterwards: a run that merges the log steps back."""

    parking: Parking

    def __call__(self, batch: Batch, table: str) -> None:
        """Merges the table's log. Raises TableStopped when the log cannot be merged, LakeError for trouble of all
        tables."""
        follows = Follows(batch.lake, batch.claim.destination, batch.claim.client_id)
        batch.fence.leave(follows.path(table))  # a run that merges the log may have fenced the table since
        merger = Merger(
            follows, batch.sessions, batch.fence, batch.run_id, batch.policies, expectations=batch.expectations,
            clock=batch.clock,
        )  # fmt: skip
        works = Works(merger, lambda name: batch.modes.of(name) is Mode.HISTORY)
        if works.keeps(table):
            works.historian.begin(table)
        try:
            merger.whole(table)
        except TableStopped as error:
            self.parking.park(table, error, batch.clock())
            raise
        self.parking.free(table)
        if works.keeps(table):
            self._history(batch, works, table)

    def _history(self, batch: Batch, works: Works, table: str) -> None:
        """Merges the log into the table's history. A failure does not stop the table: the history waits, and is
        compared with the table later if the log has lost changes meanwhile."""
        path, work = works.historian.histories.path(table), work_of(table)
        batch.fence.leave(path)
        try:
            works.historian.whole(table)
        except (TableStopped, LakeError) as error:
            self.parking.park(work, error, batch.clock())
        else:
            self.parking.free(work)
