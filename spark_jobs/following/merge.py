"""Merges one part of one log into its table, as one commit.

The commit carries the app id of the rows' epoch and the version up to which they go, as a batch's does. Rows at or
below the version that the table has are left out, so a repeated part adds nothing. The statement is a MERGE by key,
also into an empty table: a late one, of a dead run, is skipped, refused, or changes nothing. Without a key it adds and
removes copies, of a part whose bounds are `agreed` before: a late one is skipped or refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import TableStopped
from spark_jobs.changes.net import NOT_A_ROW, ImageQuery
from spark_jobs.following.last_images import LastImages, last_images
from spark_jobs.following.merged import Merged
from spark_jobs.following.net import bounds, last_emptying
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
from spark_jobs.lake.transaction import FEW_ROWS, commit_nothing, transaction
from spark_jobs.session import Sessions
from spark_jobs.write.choice import key_range
from spark_jobs.write.order import Engine, Logged, Order, Outcome, form_of
from spark_jobs.write.preparation import give_vectors
from spark_jobs.write.statements import append_rows, merge_copies, merge_keyed, merge_last
from spark_jobs.write.transaction import run_statement

_VIEW = "sluice_last_images"
_TRIES = 5  # for a table that other runs write meanwhile


@dataclass(frozen=True, slots=True)
class Merger:
    """Merges logs for one run, whose `fence` keeps the statements of earlier ones out. `views`: the tables' views are
    kept up to date; a merge by a statement rebuilds its table's view at once. `engine`: what writes small tables. Safe
    for several tables at the same time; two merges of the same table disturb each other and do no harm."""

    follows: Follows
    sessions: Sessions
    fence: Fence
    run_id: str = ""
    policies: Policies = EVOLVE
    views: Views | None = None
    engine: Engine = Engine.AUTO
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
        with leaving(self.follows.lake, self.fence, ready.path):
            try:
                return self._by_statement(ready)
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
        state, part, follows = ready.prepared.state, ready.found.part, self.follows
        form = form_of(ready.read, state)
        if form is None:
            return None
        changes = Logged(ready.found.log.path, ready.found.log.version, part.epoch, part.after, part.upto)
        order = Order(
            ready.path, ready.app, part.upto, ready.note, self.fence.token, form,
            tuple(column.name for column in ready.columns), ready.read.table.primary_key, changes, state.own,
            follows.lake.storage,
        )  # fmt: skip

        def result(outcome: Outcome, share: int) -> Merged:
            if self.views:
                self.views.merged(table, part.epoch, state)
            return self.outcome(ready, outcome, share)

        return Readied(order, result)

    def _ready(self, table: str) -> ReadyPart | None:
        return PartPreparer(self.follows, self.sessions, self.fence, self.run_id, self.policies).ready(table)

    def _by_statement(self, ready: ReadyPart) -> Merged:
        follows, found, path, state = self.follows, ready.found, ready.path, ready.prepared.state
        with self.sessions.take() as spark, lake_errors(path, copy_hint(follows.destination, found.table)):
            with self._images(ready) as images:
                if images is not None:
                    images.create_view(spark, _VIEW)
                statement = self._statement(ready, _VIEW if images else None)
                self.fence.check(path)
                give_vectors(spark, follows.lake, self.fence, path, state)
                few = (images.rows if images else found.part.rows) <= FEW_ROWS
                kind = {"few": few, "small": follows.lake.is_small(path), "fixed": images is not None}
                with transaction(spark, ready.app, found.part.upto, ready.note, **kind):
                    run_statement(spark, statement, path)
            self._pass(spark, ready)
        return self.outcome(ready, self._committed(ready))

    def _pass(self, spark: SparkSession, ready: ReadyPart) -> None:
        """Makes an empty commit for a part without a key whose copies cancel out, if Delta made none."""
        path, app, upto = ready.path, ready.app, ready.found.part.upto
        state = self.follows.lake.state(path, app)
        if ready.read.table.primary_key or state is None or (state.applied or 0) >= upto:
            return
        self.fence.check(path)
        with transaction(spark, app, upto, ready.note):
            commit_nothing(spark, path, state.columns[0].name)

    def outcome(self, ready: ReadyPart, commit: Outcome | None, share: int = 1) -> Merged:
        """Returns the result of a part by its `commit`, which is None if another run has made one of that version.
        `share`: the number of tables that were merged together, in one time."""
        contradiction = _contradiction(commit) if commit and ready.read.table.primary_key else ""
        seconds = (time.perf_counter() - ready.since) / share
        done = Merged.of(ready.found, commit, self.clock(), seconds)
        return replace(done, added_columns=ready.prepared.added_columns, contradiction=contradiction)

    def _emptied(self, ready: ReadyPart) -> Merged:
        """Merges up to the part's last entry that emptied the table: one commit that deletes all rows. For a table
        whose statements were not followed, because it had only a log."""
        follows, found, path, state = self.follows, ready.found, ready.path, ready.prepared.state
        with self.sessions.take() as spark, lake_errors(path, copy_hint(follows.destination, found.table)):
            upto = spark.sql(last_emptying(self._log(found), found.part)).collect()[0][0]
            part = replace(found.part, upto=upto, whole=False)
            if state.own.soft:  # the part's rows before the entry are not in the table, and would not be marked
                hint = copy_hint(follows.destination, found.table)
                raise TableStopped("its log has a TRUNCATE among rows that soft deletes keep", place=path, hint=hint)
            note = part.note(follows.ledger, found.table, self.run_id)
            self.fence.check(path)
            with transaction(spark, ready.app, upto, note):
                rows = rows_of(spark, path, state.version, "false")
                replace_table(path, rows, state.columns, state.own_properties, state.comment)
        emptied = replace(ready, found=replace(found, part=part), note=note)
        return self.outcome(emptied, self._committed(emptied))

    def _log(self, found: Pending) -> str:
        """Returns the SQL for the log as it was when the part was chosen."""
        return table_at(found.log.path, found.log.version)

    @contextmanager
    def _images(self, ready: ReadyPart) -> Iterator[LastImages | None]:
        """Yields the last image of each key; None for a table without a key or with columns of Sluice's, and if Spark
        should read the log."""
        key, found = ready.read.table.primary_key, ready.found
        if ready.prepared.state.own or not key:
            yield None
            return
        names = [column.name for column in ready.columns]
        with last_images(
            self.follows.lake, self.follows.destination, found.log.table, found.part, names, key
        ) as images:
            yield images

    def _statement(self, ready: ReadyPart, view: str | None) -> str:
        """Returns the statement. `view` has the last image of each key; without it the statement reads the log."""
        found, path, columns, state = ready.found, ready.path, ready.columns, ready.prepared.state
        key, names = ready.read.table.primary_key, [column.name for column in columns]
        images = ImageQuery(self._log(found), tuple(columns), key, bounds(found.part))
        if not key:
            if ready.read.counts.insert_only:
                return append_rows(path, images.inserted(), names)
            return merge_copies(path, images.net(), columns)
        between = key_range(self.follows.lake, path, ready.read, state)
        if state.own:
            kept = sorted({column.name for column in state.columns}.difference(names))
            return merge_last(path, images.last(state.own, anew=bool(kept)), names, key, state.own, between, kept)
        return merge_keyed(path, view or images.net(), names, key, deletes=True, between=between)

    def _committed(self, ready: ReadyPart) -> Outcome | None:
        """Returns the commit, or None if another run has made one of that version. Raises TableStopped if the table
        does not have the part after all."""
        lake, part, path = self.follows.lake, ready.found.part, ready.path
        commit = lake.commit_noted(path, ready.note)
        state = lake.state(path, ready.app)
        if state is None or state.applied is None or state.applied < part.upto:
            hint = copy_hint(self.follows.destination, ready.found.table)
            raise TableStopped(f"the merged table is not at version {part.upto}", place=path, hint=hint)
        if commit is None:
            return None
        sources = commit.count("numSourceRows")
        return Outcome(commit.version, commit.inserted, commit.updated, commit.deleted, sources)


def _contradiction(commit: Outcome) -> str:
    met, keys = commit.updated + commit.deleted, commit.sources
    if commit.inserted + met <= keys:
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
