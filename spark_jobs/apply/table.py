"""Applies one table's share of a claim: decide, plan, prepare, write.

A table that has the claim's end already is left alone. A repeated claim with other boundaries adds only what is new.
Delta skips a commit that another try of the same version has made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

from deltalake import DeltaTable
from pyspark.errors import PySparkException

from cdc_core.client.changes import RowsDoor
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.contract.reached import How
from cdc_core.errors import LakeError, SluiceError
from spark_jobs.apply.commits import Commit, Earlier, SourceCounts, earlier_commits, note
from spark_jobs.apply.decision import Decision, decide
from spark_jobs.apply.odd_rows import ClaimChanges, odd_rows
from spark_jobs.apply.own_images import check_kept, check_moved, images_read, whole_images
from spark_jobs.apply.progress import Progress
from spark_jobs.apply.result import TableResult
from spark_jobs.changes.table_changes import Changes
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.policies import EVOLVE, Policies
from spark_jobs.lake.progress import Range, TableProgress, check_commits
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import MERGE_ALL, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.session import Sessions
from spark_jobs.write.by_statement import StatementWriter
from spark_jobs.write.evaluation import Evaluation
from spark_jobs.write.order import SQL, Engine, Outcome
from spark_jobs.write.preparation import prepare
from spark_jobs.write.ready import ReadyTable

_ROWS_PER_SPLIT = 250_000  # a split costs a worker and a connection, which fewer rows are not worth


CatchUp = Callable[["Batch", str], None]  # of `database.table`; raises TableStopped if it cannot be merged


@dataclass(frozen=True, slots=True)
class Batch:
    """A claim with what all its tables need.

    max_splits     into how many splits Spark reads a table's changes at most
    sent_rows      plans of up to so many rows are sent with the statement instead of being pulled by Spark's workers:
                   starting a Python worker costs more, and Spark then knows how few they are
    fence, sampled, notes    the run's: all its batches share them; `sampled` are the tables whose odd rows it reported
    stopped        tables that were stopped before the claim
    modes          which tables are landed, except those of `cascading`
    catch_up       merges the part of a table's change log that the table lacks
    progress       counts what is done
    engine         what writes small tables
    expectations   are evaluated before a table is written
    """

    claim: Claim
    lake: Lake
    sessions: Sessions
    door: RowsDoor
    fence: Fence
    run_id: str = ""
    max_splits: int = 4
    sent_rows: int = 100_000
    clock: Callable[[], float] = time.time
    policies: Policies = EVOLVE
    sampled: set[str] = field(default_factory=set)
    stopped: Collection[str] = ()
    modes: Modes = MERGE_ALL
    cascading: Collection[str] = ()
    notes: Notes = field(default_factory=Notes)
    catch_up: CatchUp | None = None
    progress: Progress = field(default_factory=Progress)
    engine: Engine = Engine.AUTO
    expectations: Expectations = NO_EXPECTATIONS

    @property
    def ledger_before(self) -> DeltaTable | None:
        """Returns the ledger as the run found it; it is read once."""
        if not self.notes.ledger:
            self.notes.ledger = (self.ledger.opened(),)
        return self.notes.ledger[0]

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.lake, self.claim.destination, self.claim.client_id)

    @property
    def range(self) -> Range:
        """Returns the range that the claim hands out, for any table."""
        return Range.of(self.claim)

    def record(self, table: str) -> TableProgress | None:
        """Returns how far `database.table` is, or None if there is no table. Raises TableStopped, LakeError."""
        return TableProgress.read(self.ledger, table, self.claim.epoch)


@dataclass(frozen=True, slots=True)
class ReadyShare:
    """A table's share of a claim, ready for its commit: the decision, and the commits that brought some of it.
    `evaluation`: that of its expectations, None if nothing is expected. `planned_at`: the second since the epoch at
    which it was ready."""

    table: TableRange
    decision: Decision
    earlier: Earlier
    ready: ReadyTable
    evaluation: Evaluation | None = None
    planned_at: float = 0.0


def apply_table(batch: Batch, table: TableRange) -> TableResult:
    """Applies the changes of one table by a statement. Raises TableStopped when the table cannot take them."""
    begun = begin(batch, table)
    return begun if isinstance(begun, TableResult) else write(batch, begun)


def write(batch: Batch, begun: ReadyShare) -> TableResult:
    """Writes a table that has begun, by a statement. Raises what `apply_table` does."""
    ready = begun.ready
    if not ready.changes.rows:  # the changes cancel out
        return finish(batch, begun, Outcome(ready.prepared.state.version), SQL)
    claim = batch.claim
    writer = StatementWriter(batch.sessions, batch.lake, batch.fence, claim.destination, batch.sent_rows)
    with whole_images(ready.name, copy_hint(claim.destination, ready.name)):
        outcome = writer.write(ready)
    return finish(batch, begun, outcome, SQL)


def begin(batch: Batch, table: TableRange) -> ReadyShare | TableResult:
    """Returns the table, ready for its commit, or its result if there is nothing to write. Raises what `apply_table`
    does."""
    since = time.perf_counter()
    claim, lake = batch.claim, batch.lake
    path = lake.path(table.schema.database, table.schema.table)
    app = app_id(claim.destination, claim.client_id, table.name, claim.epoch)
    progress = _fenced(batch, table, path, app)
    state = progress.state if progress else None
    decision = decide(table, batch.range, progress)
    earlier = earlier_commits(lake, path, claim, decision, state.applied if state else None)
    if decision.replay:
        return TableResult(decision, earlier=earlier, applied_at=batch.clock())
    changes = _net_changes(batch, table, decision)
    if state is not None and state.dropped and not changes.counts.raw:  # all its rows are from before the drop
        return TableResult(decision, earlier=earlier, applied_at=batch.clock())
    again = decision.may_recur(decision.after, claim.start.version())
    check_moved(changes, again=again)
    with lake_errors(path, copy_hint(claim.destination, table.name)):
        changed, sessions = batch.policies.of(table.name).changed, batch.sessions
        prepared = prepare(
            sessions, lake, batch.fence, path, claim.destination, changes, state, app, changed, again=again
        )
    own = prepared.state.own
    check_kept(changes, prepared.state, claim.destination)
    if changes.rows and changes.by_images(prepared.state):
        with whole_images(table.name, copy_hint(claim.destination, table.name)):
            changes = changes.as_images(images_read(changes, claim, batch.door))
    metadata = note(claim, table.name, batch.run_id, decision.after, changes.counts, soft=own.soft)
    ready = ReadyTable(table.name, path, app, metadata, changes, prepared, since)
    return ReadyShare(table, decision, earlier, ready, planned_at=batch.clock())


def finish(batch: Batch, begun: ReadyShare, outcome: Outcome | None, engine: str) -> TableResult:
    """Returns the result, once the engine has made the commit; `outcome` is None if another try had made one of that
    version."""
    decision, ready, earlier = begun.decision, begun.ready, begun.earlier
    commit = None if outcome is None else _commit(batch, begun, outcome)
    if commit is None:
        earlier = earlier_commits(batch.lake, ready.path, batch.claim, decision, decision.end)
    written = bool(ready.changes.rows)
    return TableResult(
        decision,
        commit,
        earlier,
        odd=_odd_rows(batch, begun, commit),
        written=written,
        created=ready.prepared.created,
        added_columns=ready.prepared.added_columns,
        merge_seconds=time.perf_counter() - ready.since,
        planned_at=begun.planned_at,
        applied_at=batch.clock(),
        engine=engine if commit is not None and written else "",
    )


def _odd_rows(batch: Batch, begun: ReadyShare, commit: Commit | None) -> Doubt:
    """Returns the rows that were not as the source's changes expect, by key: once a run, because it costs a statement.
    Without it the commit's sums count, so an error here is ignored. Images that leave columns out are not checked."""
    table, ready = begun.table, begun.ready
    keyed, partial = bool(table.schema.primary_key), ready.changes.counts.partial
    if not keyed or commit is None or not commit.doubt or partial or table.name in batch.sampled:
        return Doubt()
    batch.sampled.add(table.name)
    with suppress(PySparkException, SluiceError), batch.sessions.take() as spark:
        source = ClaimChanges(batch.claim, table.name, commit.after, batch.door)
        return odd_rows(spark, ready.path, source, commit)
    return Doubt()


def _fenced(batch: Batch, table: TableRange, path: str, app: str) -> TableProgress | None:
    """Returns how far the table is, which only this run changes from now on, or None if there is no table."""
    found = found_progress(batch, table.name, path)
    if found is None:
        return None
    check_ledger(batch, found.state.applied, path)
    if batch.fence.entered(path) and not batch.fence.owns(found.state):  # a copy or a repair came between two claims
        batch.fence.leave(path)
    if batch.fence.entered(path):
        return found
    batch.fence.enter(path, app, found.state)
    return batch.record(table.name)


def found_progress(batch: Batch, table: str, path: str, *, whole: bool = True) -> TableProgress | None:
    """Returns how far `database.table` is before the run's fence, or None if there is no table. Raises TableStopped for
    a table of another owner, and, if it must be `whole`, CopyNeeded for one that lost commits."""
    found = batch.record(table)
    state = found.state if found else None
    if state is not None:
        state.check_owner(batch.claim.destination, table, path)
        if whole:
            state.check_form(table)
    if whole and not batch.fence.entered(path):
        check_commits(batch.ledger, batch.ledger_before, table, state, batch.range)
    return found


def check_ledger(batch: Batch, applied: int | None, path: str) -> None:
    """Raises LakeError if the cursor was lost: without a ledger only the table's own version, `applied`, shows it."""
    claim, reached = batch.claim, batch.claim.reached
    if reached is None or reached.how is not How.START or applied is None:
        return
    if applied < reached.position.version() and not batch.ledger.stretches():
        raise LakeError(
            f"reading restarted at {reached.position}, before changes that the table has, and the ledger is gone",
            place=path,
            hint=f"Restore {batch.ledger.path}. Without it: sluice reset {claim.destination} --earliest --yes, or "
            "reload the tables (sluice copy).",
        )


def _net_changes(batch: Batch, table: TableRange, decision: Decision) -> Changes:
    """Returns the net changes that the table lacks, as the service plans their reading."""
    splits = max(1, min(batch.max_splits, -(-table.rows // _ROWS_PER_SPLIT)))
    read = batch.door.info(batch.claim, table.name, after=decision.after, splits=splits)
    return Changes.claimed(batch.claim, read, batch.door, decision.after)


def _commit(batch: Batch, begun: ReadyShare, outcome: Outcome) -> Commit:
    decision, ready, evaluation = begun.decision, begun.ready, begun.evaluation
    return Commit(
        end=decision.end,
        after=decision.after,
        recurring=decision.may_recur(decision.after, batch.claim.start.version()),
        soft=ready.prepared.state.own.soft,
        source=SourceCounts.from_plan(ready.changes.counts),
        inserted=outcome.inserted,
        updated=outcome.updated,
        deleted=outcome.deleted,
        delta_version=outcome.version,
        expected=evaluation.results if evaluation else (),
        held=evaluation.held if evaluation else False,
    )
