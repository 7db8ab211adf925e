"""Applies one table's share of a claim: decide, plan, prepare, commit, read back.

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

from cdc_core.client.changes import RowsDoor, TableRead
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.contract.reached import How
from cdc_core.errors import LakeError, SluiceError
from spark_jobs.apply.commits import Commit, Earlier, SourceCounts, earlier_commits, note, own_commit
from spark_jobs.apply.decision import Decision, decide
from spark_jobs.apply.odd_rows import ClaimChanges, odd_rows
from spark_jobs.apply.own_images import images_read, whole_images
from spark_jobs.apply.progress import Progress
from spark_jobs.apply.result import TableResult
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.policies import EVOLVE, Policies
from spark_jobs.lake.progress import Range, TableProgress, check_commits
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import FEW_ROWS, transaction
from spark_jobs.landing.modes import MERGE_ALL, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.session import Sessions
from spark_jobs.write.choice import statement
from spark_jobs.write.net_file import staged
from spark_jobs.write.order import Engine, Outcome
from spark_jobs.write.preparation import Prepared, give_vectors, prepare
from spark_jobs.write.transaction import run_statement
from spark_jobs.write.view import create_view

SQL, FUSED = "sql", "fused"  # what makes a commit: a statement of its own, or the job of many tables
_VIEW = "sluice_net"
_ROWS_PER_SPLIT = 250_000  # a split costs a worker and a connection, which fewer rows are not worth


CatchUp = Callable[["Batch", str], None]  # of `database.table`; raises TableStopped if it cannot be merged


@dataclass(frozen=True, slots=True)
class Batch:
    """A claim with what all its tables need. `sent_rows`: plans of up to so many rows are sent with the statement.
    `sampled`: tables whose odd rows the run has reported already. `stopped`: tables that were stopped before the claim.
    `modes` says which tables are landed, except those of `cascading`; `notes` are the run's. `catch_up` merges the part
    of a table's change log that the table lacks. `progress` counts what is done."""

    claim: Claim
    lake: Lake
    sessions: Sessions
    door: RowsDoor
    run_id: str
    max_splits: int
    sent_rows: int
    fence: Fence
    clock: Callable[[], float]
    policies: Policies = EVOLVE
    sampled: set[str] = field(default_factory=set)
    stopped: Collection[str] = ()
    modes: Modes = MERGE_ALL
    cascading: Collection[str] = ()
    notes: Notes = field(default_factory=Notes)
    catch_up: CatchUp | None = None
    progress: Progress = field(default_factory=Progress)
    engine: Engine = Engine.AUTO

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
class ReadyTable:
    """A table that is ready for its commit: the decision, the net changes that it lacks, and the table as it was
    prepared. `seen`: the changes as they are read: net, or all images if the table has columns of Sluice's. `metadata`
    is the commit's note."""

    table: TableRange
    path: str
    app: str
    decision: Decision
    read: TableRead
    seen: TableRead
    prepared: Prepared
    earlier: Earlier
    metadata: str
    since: float


def apply_table(batch: Batch, table: TableRange) -> TableResult:
    """Applies the changes of one table by a statement. Raises TableStopped when the table cannot take them."""
    begun = begin(batch, table)
    return begun if isinstance(begun, TableResult) else write(batch, begun)


def write(batch: Batch, begun: ReadyTable) -> TableResult:
    """Writes a table that has begun, by a statement. Raises what `apply_table` does."""
    if begun.read.tickets:
        _run(batch, begun)
    return finish(batch, begun, _commit(batch, begun), SQL)


def begin(batch: Batch, table: TableRange) -> ReadyTable | TableResult:
    """Returns the table, ready for its commit, or its result if there is nothing to write. Raises what `apply_table`
    does."""
    since = time.perf_counter()
    claim, lake = batch.claim, batch.lake
    path = lake.path(table.schema.database, table.schema.table)
    app = app_id(claim.destination, claim.client_id, table.name, claim.epoch)
    state = _fenced_state(batch, table, path, app)
    decision = decide(table, batch.range, batch.record(table.name) if state else None)
    earlier = earlier_commits(lake, path, claim, decision, state.applied if state else None)
    if decision.replay:
        return TableResult(decision, earlier=earlier, applied_at=batch.clock())
    read = _plan(batch, table, decision)
    if state is not None and state.dropped and not read.counts.raw:  # all its rows are from before the drop
        return TableResult(decision, earlier=earlier, applied_at=batch.clock())
    with lake_errors(path, copy_hint(claim.destination, table.name)):
        again = decision.may_recur(decision.after, claim.start.version())
        changed, sessions = batch.policies.of(table.name).changed, batch.sessions
        prepared = prepare(sessions, lake, batch.fence, path, claim.destination, read, state, app, changed, again=again)
    seen, own = read, prepared.state.own
    if own and read.tickets:
        with whole_images(table.name, copy_hint(claim.destination, table.name)):
            seen = images_read(read, claim, decision.after, batch.door)
    metadata = note(claim, table.name, batch.run_id, decision.after, read.counts, soft=own.soft)
    return ReadyTable(table, path, app, decision, read, seen, prepared, earlier, metadata, since)


def finish(batch: Batch, begun: ReadyTable, commit: Commit | None, engine: str) -> TableResult:
    """Returns the result, once the engine has made the commit; `commit` is None if another try had made one of that
    version."""
    decision, prepared, earlier = begun.decision, begun.prepared, begun.earlier
    if commit is None:
        earlier = earlier_commits(batch.lake, begun.path, batch.claim, decision, decision.end)
    return TableResult(
        decision,
        commit,
        earlier,
        odd=_odd_rows(batch, begun.path, begun.table, begun.read, commit),
        written=bool(begun.read.tickets),
        created=prepared.created,
        added_columns=prepared.added_columns,
        merge_seconds=time.perf_counter() - begun.since,
        applied_at=batch.clock(),
        engine=engine if commit is not None and begun.read.tickets else "",
    )


def _run(batch: Batch, begun: ReadyTable) -> None:
    """Executes one statement of Spark, as one commit."""
    claim, lake, path, read, state = batch.claim, batch.lake, begun.path, begun.read, begun.prepared.state
    remedy = copy_hint(claim.destination, begun.table.name)
    with whole_images(begun.table.name, remedy), batch.sessions.take() as spark, lake_errors(path, remedy):
        # Neither sent along nor staged for a fresh table: a late append would add the rows again.
        sent_rows = 0 if state.fresh else batch.sent_rows
        few, small = read.rows <= FEW_ROWS, lake.is_small(path)
        with staged(lake, claim.destination, begun.seen, batch.door, fresh=state.fresh) as file:
            if file is not None:  # another run may have taken the table over while the file was written
                batch.fence.check(path)
            if read.table.primary_key or not read.counts.insert_only:
                give_vectors(spark, lake, batch.fence, path, state)
            create_view(spark, begun.seen, _VIEW, batch.door, sent_rows, file)
            sql = statement(lake, path, read, state, _VIEW)
            fixed = file is not None
            with transaction(spark, begun.app, begun.decision.end, begun.metadata, few=few, small=small, fixed=fixed):
                run_statement(spark, sql, path)


def _odd_rows(batch: Batch, path: str, table: TableRange, read: TableRead, commit: Commit | None) -> Doubt:
    """Returns the rows that were not as the source's changes expect, by key: once a run, because it costs a statement.
    Without it the commit's sums count, so an error here is ignored. Images that leave columns out are not checked."""
    keyed = bool(table.schema.primary_key)
    if not keyed or commit is None or not commit.doubt or read.counts.partial or table.name in batch.sampled:
        return Doubt()
    batch.sampled.add(table.name)
    with suppress(PySparkException, SluiceError), batch.sessions.take() as spark:
        source = ClaimChanges(batch.claim, table.name, commit.after, batch.door)
        return odd_rows(spark, path, source, commit)
    return Doubt()


def _fenced_state(batch: Batch, table: TableRange, path: str, app: str) -> TableState | None:
    """Returns the table's state, which only this run changes from now on, or None if there is no table."""
    state = found_state(batch, table.name, path, app)
    if state is None:
        return None
    check_ledger(batch, state.applied, path)
    if batch.fence.entered(path) and not batch.fence.owns(state):  # a copy or a repair came between two claims
        batch.fence.leave(path)
    return batch.fence.enter(path, app, state)


def found_state(batch: Batch, table: str, path: str, app: str, *, whole: bool = True) -> TableState | None:
    """Returns the state of `database.table` before the run's fence, or None if there is no table. Raises TableStopped
    for a table of another owner, and, if it must be `whole`, CopyNeeded for one that lost commits."""
    claim, state = batch.claim, batch.lake.state(path, app)
    if state is not None:
        state.check_owner(claim.destination, table, path)
        if whole:
            state.check_form(table)
    if whole and not batch.fence.entered(path):
        check_commits(batch.ledger, batch.ledger_before, table, state, batch.range)
    return state


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


def _plan(batch: Batch, table: TableRange, decision: Decision) -> TableRead:
    """Returns the service's plan of the rows that the table lacks."""
    splits = max(1, min(batch.max_splits, -(-table.rows // _ROWS_PER_SPLIT)))
    return batch.door.info(batch.claim, table.name, after=decision.after, splits=splits)


def counted_commit(batch: Batch, begun: ReadyTable, outcome: Outcome) -> Commit:
    """Returns the commit whose rows were counted as they were written."""
    decision = begun.decision
    return Commit(
        end=decision.end,
        after=decision.after,
        recurring=decision.may_recur(decision.after, batch.claim.start.version()),
        soft=begun.prepared.state.own.soft,
        source=SourceCounts.from_plan(begun.read.counts),
        inserted=outcome.inserted,
        updated=outcome.updated,
        deleted=outcome.deleted,
        delta_version=outcome.version,
    )


def _commit(batch: Batch, begun: ReadyTable) -> Commit | None:
    """Returns this try's commit, or None when Delta skipped it, because another try had committed that version."""
    if begun.read.tickets:
        return own_commit(batch.lake, begun.path, begun.metadata, begun.decision)
    return counted_commit(batch, begun, Outcome(begun.prepared.state.version))  # the changes cancel out
