"""The merges and the histories of one run. A history has a name of its own, so each waits alone after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from cdc_core.errors import LakeError
from spark_jobs.following.history.columns import table_of, work_of
from spark_jobs.following.history.historian import Historian
from spark_jobs.following.merge import Merger
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Follows, Pending
from spark_jobs.following.together import Readied, merge_together
from spark_jobs.write.order import MOST_ROWS, Engine

_VIEW_SECONDS = 1.0  # after each job; the next one waits meanwhile


@dataclass(frozen=True, slots=True)
class Works:
    """`keeps` says which tables have a history."""

    merger: Merger
    keeps: Callable[[str], bool]

    @property
    def follows(self) -> Follows:
        return self.merger.follows

    @property
    def historian(self) -> Historian:
        merger = self.merger
        return Historian(merger.follows, merger.sessions, merger.fence, merger.run_id, merger.clock)

    def cores(self) -> int:
        """Returns how many tasks Spark runs at a time. If Spark is down, the first merge says so."""
        with suppress(LakeError):
            return self.merger.sessions.cores()
        return 1

    def of(self, tables: Sequence[str]) -> list[str]:
        """Returns the tables, and the names of their histories."""
        return [*tables, *(work_of(table) for table in tables if self.keeps(table))]

    def pending(self, work: str) -> Pending | None:
        """Returns what a table or a history lacks, or None."""
        table = table_of(work)
        return self.merger.pending(work) if table is None else self.historian.pending(table)

    def takes(self, _: str, pending: Pending) -> bool:
        """Whether `together` may merge the part: the rows of a comparison are not counted before."""
        return self.merger.engine is Engine.AUTO and 0 < pending.part.rows <= MOST_ROWS

    def together(self, futures: Mapping[str, Future[Merged]], tasks: int) -> None:
        """Merges the first part of each of these works by one job of so many tasks: see `merge_together`."""
        merge_together(self.merger.sessions, tasks, self._readied, futures)
        self.rest(_VIEW_SECONDS)

    def rest(self, seconds: float) -> None:
        """Rebuilds waiting views, for so many seconds."""
        if self.merger.views:
            self.merger.views.make(seconds)

    def _readied(self, work: str) -> Readied | Merged | None:
        if (table := table_of(work)) is not None:
            return self.historian.readied(table)
        if self.keeps(work):
            self.historian.begin(work)
        return self.merger.readied(work)

    def next(self, work: str) -> Merged:
        """Merges the first part of a table or a history."""
        if (table := table_of(work)) is not None:
            return self.historian.next(table)
        if self.keeps(work):
            self.historian.begin(work)
        return self.merger.next(work)
