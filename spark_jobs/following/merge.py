"""One part of one log becomes one commit of the merged table.

The commit carries the app id of the rows' epoch and the version up to which they go, as a batch's does. Rows at or
below the version that the table has are left out, so a part that comes again adds nothing. The statement is a MERGE by
key, also into an empty table: one that comes late, of a run that is dead, is skipped, refused, or changes nothing.
Without a key it adds and takes copies, of a part whose bounds are `agreed` before: one that comes late is skipped or
refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead
from cdc_core.errors import LakeError, TableStopped
from spark_jobs.changes.net import NOT_A_ROW, ImageQuery
from spark_jobs.following.agreed import Agreed
from spark_jobs.following.files import only_inserted
from spark_jobs.following.last_images import LastImages, last_images
from spark_jobs.following.merged import Merged
from spark_jobs.following.net import bounds, last_emptying, read_of
from spark_jobs.following.now import shown
from spark_jobs.following.others import TakenOver, is_anothers
from spark_jobs.following.pending import Follows, Pending
from spark_jobs.lake.failures import lake_errors, tried_twice
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import EVOLVE, Policies
from spark_jobs.lake.progress import Range
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import replace_table, rows_of
from spark_jobs.lake.sql import table_at
from spark_jobs.lake.state import DeltaCommit, TableState
from spark_jobs.lake.transaction import FEW_ROWS, commit_nothing, transaction
from spark_jobs.lake.types import LakeColumn, lake_columns
from spark_jobs.landing.definition import definition_of, has_key
from spark_jobs.landing.unfollowed import Unfollowed
from spark_jobs.session import Sessions
from spark_jobs.write.choice import key_range
from spark_jobs.write.preparation import Prepared, give_vectors, prepare
from spark_jobs.write.statements import append_rows, merge_copies, merge_keyed, merge_last
from spark_jobs.write.transaction import run_statement

_VIEW = "sluice_last_images"
_TRIES = 5  # of a table that others write meanwhile


@dataclass(frozen=True, slots=True)
class Merger:
    """Merges logs for one run, whose `fence` keeps the statements of earlier ones out. `views`: a table's view is made
    anew behind each merge. Safe for several tables side by side; two of the same table get in each other's way and do
    no harm."""

    follows: Follows
    sessions: Sessions
    fence: Fence
    run_id: str = ""
    policies: Policies = EVOLVE
    views: bool = False
    clock: Callable[[], float] = time.time

    def whole(self, table: str, *, sleep: Callable[[float], None] = time.sleep) -> Merged:
        """Merges all that the log has by now. Raises what `next` raises; TakenOver when others keep writing."""
        done = Merged(table)
        for merged in every_part(table, self.next, sleep):
            done += merged
            if merged.contradiction:
                hint = copy_hint(self.follows.destination, table)
                raise TableStopped(merged.contradiction, place=self.follows.path(table), hint=hint)
        return done

    def pending(self, table: str) -> Pending | None:
        """What the table lacks. Raises LakeError; TableStopped for a damaged log."""
        return self.follows.pending(table)

    def next(self, table: str) -> Merged:
        """Merges the first part that the table lacks.

        Raises TableStopped when the table cannot take it, TakenOver when another run writes the table, LakeError for
        trouble of all tables.
        """
        merged = tried_twice(lambda: self._next(table))
        return replace(merged, untold=shown(self.sessions, self.follows, table)) if merged and self.views else merged

    def _next(self, table: str) -> Merged:
        found = self._entered(table)
        if found is not None and not has_key(found.log.metadata().configuration):
            found = self._agreed.part(table, self.follows.pending)
        if found is None:
            return Merged(table)
        path = self.follows.path(table)
        try:
            return self._merged(found, path)
        except TableStopped as error:
            if NOT_A_ROW not in str(error.__cause__):
                raise
            return self._emptied(found, path)
        except LakeError as error:
            if is_anothers(self.follows.lake, self.fence, path, error):
                self.fence.leave(path)
                raise TakenOver(path) from error
            raise

    @property
    def _agreed(self) -> Agreed:
        return Agreed(self.follows.lake, self.follows.destination, self.follows.client_id)

    def _entered(self, table: str) -> Pending | None:
        """What the table lacks, once only this run changes it."""
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

    def _merged(self, found: Pending, path: str) -> Merged:
        began, follows, part = time.perf_counter(), self.follows, found.part
        app = follows.app(found.table, part.epoch)
        metadata = part.note(follows.ledger, found.table, self.run_id)
        with self.sessions.take() as spark, lake_errors(path, copy_hint(follows.destination, found.table)):
            prepared = self._prepared(found, path, app)
            with self._images(found, prepared.state) as images:
                if images is not None:
                    images.create_view(spark, _VIEW)
                statement = self._statement(path, found, prepared.state, _VIEW if images else None)
                self.fence.check(path)
                give_vectors(spark, follows.lake, self.fence, path, prepared.state)
                few = (images.rows if images else part.rows) <= FEW_ROWS
                kind = {"few": few, "small": follows.lake.is_small(path), "fixed": images is not None}
                with transaction(spark, app, part.upto, metadata, **kind):
                    run_statement(spark, statement, path)
            self._pass(spark, found, path, app, metadata)
        commit = self._committed(found, path, app, metadata)
        return self._outcome(found, commit, prepared.added_columns, began)

    def _pass(self, spark: SparkSession, found: Pending, path: str, app: str, metadata: str) -> None:
        """Makes an empty commit for a part without a key whose copies cancel out, where Delta made none."""
        state = self.follows.lake.state(path, app)
        if has_key(found.log.metadata().configuration) or state is None or (state.applied or 0) >= found.part.upto:
            return
        self.fence.check(path)
        with transaction(spark, app, found.part.upto, metadata):
            commit_nothing(spark, path, state.columns[0].name)

    def _outcome(self, found: Pending, commit: DeltaCommit | None, added: tuple[str, ...], began: float) -> Merged:
        part = found.part
        return Merged(
            found.table,
            parts=1,
            rows=part.rows,
            inserted=commit.inserted if commit else 0,
            updated=commit.updated if commit else 0,
            deleted=commit.deleted if commit else 0,
            epoch=part.epoch,
            upto=part.upto,
            delta_version=commit.version if commit else None,
            since=part.since,
            merged_at=self.clock(),
            seconds=time.perf_counter() - began,
            added_columns=added,
            contradiction=_contradiction(commit) if commit and has_key(found.log.metadata().configuration) else "",
        )

    def _emptied(self, found: Pending, path: str) -> Merged:
        """One commit in which all rows go: up to the last entry of the part that says so. For a table whose statements
        were not followed, because it had a log alone."""
        follows, began = self.follows, time.perf_counter()
        app = follows.app(found.table, found.part.epoch)
        with self.sessions.take() as spark, lake_errors(path, copy_hint(follows.destination, found.table)):
            upto = spark.sql(last_emptying(self._log(found), found.part)).collect()[0][0]
            part = replace(found.part, upto=upto, whole=False)
            state = follows.lake.state(path, app) or self._prepared(found, path, app).state
            if state.own.soft:  # rows that came before the entry are not in the table, and would not be marked
                hint = copy_hint(follows.destination, found.table)
                raise TableStopped("its log has a TRUNCATE among rows that soft deletes keep", place=path, hint=hint)
            metadata = part.note(follows.ledger, found.table, self.run_id)
            self.fence.check(path)
            with transaction(spark, app, upto, metadata):
                rows = rows_of(spark, path, state.version, "false")
                replace_table(path, rows, state.columns, state.own_properties, state.comment)
        emptied = replace(found, part=part)
        return self._outcome(emptied, self._committed(emptied, path, app, metadata), (), began)

    def _log(self, found: Pending) -> str:
        """The log to read from, in SQL: as it was when the part was chosen."""
        return table_at(self.follows.log_path(found.table), found.log.version())

    def _prepared(self, found: Pending, path: str, app: str) -> Prepared:
        """The table with the columns of the part's rows."""
        follows = self.follows
        schema = definition_of(found.log.metadata().configuration, follows.log_path(found.table))
        changed, again = self.policies.of(found.table).changed, self._may_recur(found)
        read, destination, lake = read_of(schema, found), follows.destination, follows.lake
        return prepare(self.sessions, lake, self.fence, path, destination, read, found.state, app, changed, again=again)

    @contextmanager
    def _images(self, found: Pending, state: TableState) -> Iterator[LastImages | None]:
        """The last image of each key; None for a table without a key or with columns of ours, and where Spark should
        read the log."""
        read, columns = self._read(found, state)
        if state.own or not read.table.primary_key:
            yield None
            return
        lake, names = self.follows.lake, [column.name for column in columns]
        key = read.table.primary_key
        with last_images(lake, self.follows.destination, found.log, found.part, names, key) as images:
            yield images

    def _read(self, found: Pending, state: TableState) -> tuple[TableRead, list[LakeColumn]]:
        """The log's rows as the service would describe them, and the columns that the table has of them."""
        read = read_of(definition_of(found.log.metadata().configuration, self.follows.log_path(found.table)), found)
        there = {column.name for column in state.columns}
        return read, [column for column in lake_columns(read.schema, read.table) if column.name in there]

    def _statement(self, path: str, found: Pending, state: TableState, view: str | None) -> str:
        """`view` has the last image of each key; without one the statement reads the log."""
        read, columns = self._read(found, state)
        key, names = read.table.primary_key, [column.name for column in columns]
        part, images = found.part, ImageQuery(self._log(found), tuple(columns), key, bounds(found.part))
        if not key:
            if only_inserted(found.log, part.epoch, part.after, part.upto):
                return append_rows(path, images.inserted(), names)
            return merge_copies(path, images.net(), columns)
        between = key_range(self.follows.lake, path, read, state)
        if state.own:
            kept = sorted({column.name for column in state.columns}.difference(names))
            return merge_last(path, images.last(state.own, anew=bool(kept)), names, key, state.own, between, kept)
        return merge_keyed(path, view or images.net(), names, key, deletes=True, between=between)

    def _may_recur(self, found: Pending) -> bool:
        """Whether rows that come again, of an earlier definition perhaps, may be among the part's."""
        if found.state is None or not has_key(found.log.metadata().configuration):
            return False
        follows, part = self.follows, found.part
        progress = follows.progress(found.table, part.epoch)
        wanted = Range(follows.epoch(found.log, part.epoch), part.after or 0, part.upto)
        upto = replace(progress, keyed=True).repeats(wanted) if progress else None
        return upto is not None and (part.after or 0) < upto

    def _committed(self, found: Pending, path: str, app: str, metadata: str) -> DeltaCommit | None:
        """The commit, None where another run has made one of that version. Raises TableStopped where the table does not
        have the part after all."""
        lake, part = self.follows.lake, found.part
        commit = lake.commit_noted(path, metadata)
        state = lake.state(path, app)
        if state is None or state.applied is None or state.applied < part.upto:
            hint = copy_hint(self.follows.destination, found.table)
            raise TableStopped(f"the merged table is not at version {part.upto}", place=path, hint=hint)
        return commit


def _contradiction(commit: DeltaCommit) -> str:
    met, inserted, keys = commit.updated + commit.deleted, commit.inserted, commit.count("numSourceRows")
    return f"{keys} keys of the log met {met} rows: a key exists more than once" if inserted + met > keys else ""


def every_part(table: str, following: Callable[[str], Merged], sleep: Callable[[float], None]) -> Iterator[Merged]:
    """What `following` brings the table, part by part, until there is nothing more. Raises what it raises; TakenOver
    when others keep writing."""
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
