"""`StatementWriter`: writes a table's changes by one statement of Spark, as one commit."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import TableStopped
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import FEW_ROWS, commit_nothing, transaction
from spark_jobs.session import Sessions
from spark_jobs.write.choice import key_range, statement
from spark_jobs.write.order import Outcome
from spark_jobs.write.ready import ReadyTable
from spark_jobs.write.seen import seen_by
from spark_jobs.write.transaction import run_statement
from spark_jobs.write.vectors import gains_by_vectors, give_vectors


@dataclass(frozen=True, slots=True)
class StatementWriter:
    """Writes tables of one destination for one run, whose `fence` keeps the statements of earlier ones out. Of a claim
    up to `sent_rows` rows are sent along with a statement."""

    sessions: Sessions
    lake: Lake
    fence: Fence
    destination: str
    sent_rows: int = 0

    def write(self, ready: ReadyTable) -> Outcome | None:
        """Executes the statement. Returns its outcome, or None if another try has made a commit of that version. Raises
        TableStopped if the table cannot take the changes, LakeError for trouble of all tables."""
        lake, path, changes, state = self.lake, ready.path, ready.changes, ready.prepared.state
        with (
            self.sessions.take() as spark,
            lake_errors(path, self._remedy(ready)),
            seen_by(spark, lake, self.destination, changes, state, self.sent_rows) as seen,
        ):
            self.fence.check(path)  # another run may have taken the table over meanwhile
            between = key_range(lake, path, changes, state)
            vectors = gains_by_vectors(lake, path, changes, seen, between)
            if vectors and (changes.key or not changes.counts.insert_only):
                give_vectors(spark, lake, self.fence, path, state)
            sql = statement(path, changes, state, seen, between)
            few, fixed = seen.rows <= FEW_ROWS, seen.fixed
            with transaction(spark, ready.app, ready.version, ready.note, few=few, rewrites=not vectors, fixed=fixed):
                run_statement(spark, sql, path)
            if not changes.key or changes.definition.where or changes.left_out is not None:
                self._pass(spark, ready)
        return self.committed(ready)

    def committed(self, ready: ReadyTable) -> Outcome | None:
        """Returns the outcome of a statement that was executed, or None if another try has made a commit of that
        version. Raises TableStopped if the table does not have the changes after all, LakeError if it is another run's
        by now."""
        commit = self.lake.commit_noted(ready.path, ready.note)
        if commit is not None:
            sources = commit.count("numSourceRows")
            return Outcome(commit.version, commit.inserted, commit.updated, commit.deleted, sources)
        if not self._has(ready):
            self.fence.check(ready.path)
            message = f"the table is not at version {ready.version} after its statement"
            raise TableStopped(message, place=ready.path, hint=self._remedy(ready))
        return None

    def _pass(self, spark: SparkSession, ready: ReadyTable) -> None:
        """Makes an empty commit, if Delta made none: for changes without a key whose copies cancel out, and if a
        condition or an expectation leaves out all rows."""
        if self._has(ready):
            return
        self.fence.check(ready.path)
        with transaction(spark, ready.app, ready.version, ready.note):
            commit_nothing(spark, ready.path, ready.prepared.state.columns[0].name)

    def _has(self, ready: ReadyTable) -> bool:
        state = self.lake.state(ready.path, ready.app)
        return state is not None and (state.applied or 0) >= ready.version

    def _remedy(self, ready: ReadyTable) -> str:
        return copy_hint(self.destination, ready.name)
