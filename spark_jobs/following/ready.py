"""Prepares the first part of a log that a table lacks, and the table for it: fenced, created, with the part's columns.

Both a merge by a statement and the job of many tables begin here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.following.agreed import Agreed
from spark_jobs.following.others import leaving
from spark_jobs.following.pending import Follows, Pending
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import Policies
from spark_jobs.lake.progress import Range
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.landing.unfollowed import Unfollowed
from spark_jobs.session import Sessions
from spark_jobs.write.preparation import prepare
from spark_jobs.write.ready import ReadyTable


@dataclass(frozen=True, slots=True)
class ReadyPart:
    """A part of a log, and its table, ready for its commit. `expected`: the results of the table's expectations."""

    found: Pending
    table: ReadyTable
    expected: tuple[ExpectationResult, ...] = ()


@dataclass(frozen=True, slots=True)
class PartPreparer:
    """Prepares parts for one run, whose `fence` keeps the statements of earlier ones out. Safe for several tables at
    the same time."""

    follows: Follows
    sessions: Sessions
    fence: Fence
    run_id: str
    policies: Policies

    def ready(self, table: str) -> ReadyPart | None:
        """Returns the part, or None if the table lacks nothing. From then on only this run changes the table.

        Raises TableStopped when the table cannot take the part, TakenOver when another run writes the table, LakeError
        for trouble of all tables."""
        began, found = time.perf_counter(), self._entered(table)
        if found is not None and not found.log.has_key:
            found = self._agreed.part(table, self.follows.pending)
        if found is None:
            return None
        follows, part = self.follows, found.part
        path, app = follows.path(table), follows.app(table, part.epoch)
        with leaving(follows.lake, self.fence, path), lake_errors(path, copy_hint(follows.destination, table)):
            changes = found.changes
            changed, again = self.policies.of(table).changed, self._may_recur(found)
            prepared = prepare(
                self.sessions, follows.lake, self.fence, path, follows.destination, changes, found.state, app, changed,
                again=again,
            )  # fmt: skip
        note = part.note(follows.ledger, table, self.run_id)
        return ReadyPart(found, ReadyTable(table, path, app, note, changes, prepared, began))

    @property
    def _agreed(self) -> Agreed:
        return Agreed(self.follows.lake, self.follows.destination, self.follows.client_id)

    def _entered(self, table: str) -> Pending | None:
        """Returns what the table lacks, once only this run changes it."""
        follows, found = self.follows, self.follows.pending(table)
        path = follows.path(table)
        if found is not None:
            Unfollowed(follows.lake, follows.destination, follows.client_id).check(table, found.state, path)
        if found is None or found.state is None:
            return found
        found.state.check_owner(follows.destination, table, path)
        found.state.check_form(table)
        entered = self.fence.enter(path, follows.app(table, found.part.epoch), found.state)
        return found if entered is found.state else follows.pending(table)

    def _may_recur(self, found: Pending) -> bool:
        """Whether repeated rows, perhaps of an earlier definition, may be among the part's."""
        if found.state is None or not found.log.has_key:
            return False
        follows, part = self.follows, found.part
        progress = follows.progress(found.table, part.epoch)
        wanted = Range(found.log.epoch(part.epoch), part.after or 0, part.upto)
        upto = replace(progress, keyed=True).repeats(wanted) if progress else None
        return upto is not None and (part.after or 0) < upto
