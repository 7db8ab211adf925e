"""A log is merged whole before something else writes the merged table: a DDL statement, or a run that merges claims
without a log.

Otherwise rows of before a statement would meet the columns of after it; and rows of the log at or below the version
that such a run writes would be taken for merged.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import TableStopped
from spark_jobs.apply.table import Batch
from spark_jobs.following.merge import Merger
from spark_jobs.following.parked import Parking
from spark_jobs.following.pending import Follows


@dataclass(frozen=True, slots=True)
class CatchUp:
    """For the run of a batch. The table is that run's afterwards: one that merges the log steps back."""

    parking: Parking

    def __call__(self, batch: Batch, table: str) -> None:
        """Raises TableStopped when the log cannot be merged, LakeError for trouble of all tables."""
        follows = Follows(batch.lake, batch.claim.destination, batch.claim.client_id)
        batch.fence.leave(follows.path(table))  # a run that merges the log may have fenced the table since
        merger = Merger(follows, batch.sessions, batch.fence, batch.run_id, batch.policies, clock=batch.clock)
        try:
            merger.whole(table)
        except TableStopped as error:
            self.parking.park(table, error, batch.clock())
            raise
        self.parking.free(table)
