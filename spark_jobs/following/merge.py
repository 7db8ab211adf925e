"""Merges one part of one log into its table, as one commit.

The commit carries the app id of the rows' epoch and the version up to which they go, as a batch's does. Rows at or
below the version that the table has are left out, so a repeated part adds nothing. The statement is a MERGE by key,
also into an empty table: a late one, of a dead run, is skipped, refused, or changes nothing. Without a key it adds and
removes copies, of a part whose bounds are `agreed` before: a late one is skipped or refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cdc_core.errors import TableStopped
from spark_jobs.changes.columns import OP, TRUNCATE, VERSION
from spark_jobs.changes.net import NOT_A_ROW
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.following.merged import Merged
from spark_jobs.following.now import refresh_view
from spark_jobs.following.others import TakenOver, leaving
from spark_jobs.following.pending import Follows, Pending
from spark_jobs.following.ready import PartPreparer, ReadyPart
from spark_jobs.following.together import Readied
from spark_jobs.following.views import Views
from spark_jobs.lake.failures import lake_errors, tried_twice
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import EVOLVE, Policies
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import replace_table, rows_of
from spark_jobs.lake.sql import table_at
from spark_jobs.lake.transaction import transaction
from spark_jobs.session import Sessions
from spark_jobs.write.by_statement import StatementWriter
from spark_jobs.write.evaluation import EvaluatedTable, Evaluator
from spark_jobs.write.order import Engine, Outcome

_TRIES = 5  # for a table that other runs write meanwhile


@dataclass(frozen=True, slots=True)
class Merger:
    """Merges logs for one run, whose `fence` keeps the statements of earlier ones out. `views`: the tables' views are
    kept up to date; a merge by a statement rebuilds its table's view at once. `engine`: what writes small tables.
    `expectations` are evaluated before a part is merged. Safe for several tables at the same time; two merges of the
    same table disturb each other and do no harm."""

    follows: Follows
    sessions: Sessions
    fence: Fence
    run_id: str = ""
    policies: Policies = EVOLVE
    views: Views | None = None
    engine: Engine = Engine.AUTO
    expectations: Expectations = NO_EXPECTATIONS
    clock: Callable[[], float] = time.time

    def whole(self, table: str, *, sleep: Callable[[float], None] = time.sleep) -> Merged:
        """Merges all that the log has by now. Raises what `next` raises; TakenOver when other runs keep writing."""
        done = Merged(table)
        for merged in every_part(table, self.next, sleep):
            done += merged
            if merged.contradiction:
                hint = copy_hint(self.follows.destination, table)
                raise TableStopped(merged.contradiction, place=self.follows.path(table), hint=hint)
        return done

    def pending(self, table: str) -> Pending | None:
        """Returns what the table lacks, or None. Raises LakeError; TableStopped for a damaged log."""
        return self.follows.pending(table)

    def next(self, table: str) -> Merged:
        """Merges the first part that the table lacks.

        Raises TableStopped when the table cannot take it, TakenOver when another run writes the table, LakeError for
        trouble of all tables.
        """
        merged = tried_twice(lambda: self._next(table))
        if not merged or not self.views:
            return merged
        return replace(merged, view_error=refresh_view(self.sessions, self.follows, table))

    def _next(self, table: str) -> Merged:
        ready = self._ready(table)
        if ready is None:
            return Merged(table)
        with leaving(self.follows.lake, self.fence, ready.table.path):
            try:
                return self._merged(ready, self._writer.write(ready.table))
            except TableStopped as error:
                if NOT_A_ROW not in str(error.__cause__):
                    raise
                return self._emptied(ready)

    def readied(self, table: str) -> Readied | Merged | None:
        """Prepares the same part for the job of many tables. Returns it; the empty result if there is nothing to merge;
        None if the part needs a statement."""
        ready = self._ready(table)
        if ready is None:
            return Merged(table)
        order = ready.table.order(self.follows.lake, self.fence.token)
        if order is None:
            return None

        def result(outcome: Outcome, share: int) -> Merged:
            if self.views:
                self.views.merged(table, ready.found.part.epoch, ready.table.prepared.state)
            return self._merged(ready, outcome, share)

        return Readied(order, result)

    def _ready(self, table: str) -> ReadyPart | None:
        """Returns the part, evaluated. Raises TableStopped if the table must not take it."""
        ready = PartPreparer(self.follows, self.sessions, self.fence, self.run_id, self.policies).ready(table)
        if ready is None or not self.expectations:
            return ready
        follows = self.follows
        quarantine = QuarantineTable(follows.lake, follows.destination, table)
        if not self.expectations.of(table) and not quarantine.exists:
            return ready
        acceptances = Acceptances(follows.lake, follows.destination, follows.client_id)
        evaluator = Evaluator(
            follows.lake, self.sessions, self.fence, follows.destination, self.expectations.of_parts, acceptances
        )
        with leaving(follows.lake, self.fence, ready.table.path), leaving(follows.lake, self.fence, quarantine.path):
            found = evaluator.evaluate([EvaluatedTable(ready.table)])[table]
        if found.stop is not None:
            raise found.stop
        assert found.ready is not None
        return replace(ready, table=found.ready, expected=found.results)

    @property
    def _writer(self) -> StatementWriter:
        return StatementWriter(self.sessions, self.follows.lake, self.fence, self.follows.destination)

    def _merged(self, ready: ReadyPart, outcome: Outcome | None, share: int = 1) -> Merged:
        """Returns the result of a part; `outcome` is None if another run has made a commit of that version. `share`:
        the number of tables that were merged together, in one time."""
        table = ready.table
        contradiction = _contradiction(outcome) if outcome and table.changes.key else ""
        seconds = (time.perf_counter() - table.since) / share
        done = Merged.of(ready.found, outcome, self.clock(), seconds)
        added = table.prepared.added_columns
        return replace(done, added_columns=added, contradiction=contradiction, expected=ready.expected)

    def _emptied(self, ready: ReadyPart) -> Merged:
        """Merges up to the part's last entry that emptied the table: one commit that deletes all rows. For a table
        whose statements were not followed, because it had only a log."""
        follows, found, path, state = self.follows, ready.found, ready.table.path, ready.table.prepared.state
        with self.sessions.take() as spark, lake_errors(path, copy_hint(follows.destination, found.table)):
            upto = spark.sql(_last_emptying(found)).collect()[0][0]
            part = replace(found.part, upto=upto, whole=False)
            if state.own.soft:  # the part's rows before the entry are not in the table, and would not be marked
                hint = copy_hint(follows.destination, found.table)
                raise TableStopped("its log has a TRUNCATE among rows that soft deletes keep", place=path, hint=hint)
            note = part.note(follows.ledger, found.table, self.run_id)
            self.fence.check(path)
            with transaction(spark, ready.table.app, upto, note):
                rows = rows_of(spark, path, state.version, "false")
                replace_table(path, rows, state.columns, state.own_properties, state.comment)
        changes = replace(ready.table.changes, range=part)
        emptied = ReadyPart(replace(found, part=part), replace(ready.table, changes=changes, note=note))
        return self._merged(emptied, self._writer.committed(emptied.table))


def _last_emptying(found: Pending) -> str:
    """Returns a query for the version of the part's last entry that emptied the table."""
    log = table_at(found.log.path, found.log.version)
    return f"SELECT max({VERSION}) FROM {log} WHERE {found.part.sql} AND {OP} = '{TRUNCATE}'"  # noqa: S608


def _contradiction(outcome: Outcome) -> str:
    met, keys = outcome.updated + outcome.deleted, outcome.sources
    if outcome.inserted + met <= keys:
        return ""
    return f"{keys} keys of the log met {met} rows: a key exists more than once"


def every_part(table: str, following: Callable[[str], Merged], sleep: Callable[[float], None]) -> Iterator[Merged]:
    """Yields the results of `following`, which merges a part, until there is nothing more. Raises what it raises;
    TakenOver when other runs keep writing."""
    left = _TRIES
    while True:
        try:
            found = following(table)
        except TakenOver:
            left -= 1
            if not left:
                raise
            sleep(1.0)
            continue
        if not found:
            return
        yield found
