"""Prepares the first part of a log that a table lacks, and the table for it: fenced, created, with the part's columns.

Both a merge by a statement and the job of many tables begin here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from cdc_core.client.changes import TableRead
from spark_jobs.following.agreed import Agreed
from spark_jobs.following.net import read_of
from spark_jobs.following.others import leaving
from spark_jobs.following.pending import Follows, Pending
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import Policies
from spark_jobs.lake.progress import Range
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.types import LakeColumn, lake_columns
from spark_jobs.landing.unfollowed import Unfollowed
from spark_jobs.session import Sessions
from spark_jobs.write.preparation import Prepared, prepare


@dataclass(frozen=True, slots=True)
class ReadyPart:
    """A part of a log, its rows as the service would describe them, and the table as it was prepared for the part.
    `note` is the commit's user metadata."""

    found: Pending
    path: str
    app: str
    note: str
    read: TableRead
    prepared: Prepared
    since: float

    @property
    def columns(self) -> list[LakeColumn]:
        """Returns the columns of the rows that the table has."""
        there = {column.name for column in self.prepared.state.columns}
        return [column for column in lake_columns(self.read.schema, self.read.table) if column.name in there]


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
            read = read_of(found.log.definition, found)
            changed, again = self.policies.of(table).changed, self._may_recur(found)
            prepared = prepare(
                self.sessions, follows.lake, self.fence, path, follows.destination, read, found.state, app, changed,
                again=again,
            )  # fmt: skip
        note = part.note(follows.ledger, table, self.run_id)
        return ReadyPart(found, path, app, note, read, prepared, began)

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
