"""Applies all tables of one claim, several at the same time, each in one Delta commit.

A table that cannot take its changes stops while the others go on; so does one whose changes Spark refuses twice.
Nothing here acks or rolls back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

from cdc_core.client.changes import RowsDoor
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.errors import LakeError, TableStopped
from spark_jobs.apply.cascade import NOTHING, Cascades
from spark_jobs.apply.ddl.copies import Copier, copied
from spark_jobs.apply.ddl.follow import follow
from spark_jobs.apply.ddl.passing import check_unfollowed
from spark_jobs.apply.kept import broken_otherwise, keep, snapshots_of
from spark_jobs.apply.landing import land, land_statements, lands, merge_before_statements, merge_log
from spark_jobs.apply.progress import Progress
from spark_jobs.apply.result import BatchResult, BrokenSnapshot, Refusal, TableResult
from spark_jobs.apply.table import Batch, CatchUp, ReadyShare, apply_table, write
from spark_jobs.apply.together import Together
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.lake.failures import tried_twice
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import EVOLVE, Policies
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.append import Landed
from spark_jobs.landing.modes import MERGE_ALL, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.session import Sessions
from spark_jobs.union.publish import Published, publish
from spark_jobs.write.order import Engine

_Given = TypeVar("_Given")
_Taken = TableResult | Landed | Refusal | None


def apply_batch(
    claim: Claim,
    lake: Lake,
    sessions: Sessions,
    flight_url: str,
    *,
    token: str = "",
    run_id: str = "",
    parallelism: int = 4,
    max_splits: int = 4,
    sent_rows: int = 100_000,
    stopped: Collection[str] = (),
    fence: Fence | None = None,
    sampled: set[str] | None = None,
    cascades: Cascades | None = None,
    clock: Callable[[], float] = time.time,
    policies: Policies = EVOLVE,
    copier: Copier | None = None,
    modes: Modes = MERGE_ALL,
    notes: Notes | None = None,
    catch_up: CatchUp | None = None,
    progress: Progress | None = None,
    ca: str = "",
    engine: Engine = Engine.AUTO,
    expectations: Expectations = NO_EXPECTATIONS,
) -> BatchResult:
    """Follows the claim's DDL statements, then applies every table, except tables of `stopped` that no statement
    mended; both up to `parallelism` at a time. Changes of tables with an open snapshot are kept for it, also of stopped
    tables.

    Plans of up to `sent_rows` rows are sent with the statement instead of being pulled by Spark's workers: starting a
    Python worker to plan and to read costs more, and Spark then knows how few they are. A run gives all its batches the
    same `fence`, `notes` and `sampled`, the tables whose odd rows were reported. `cascades` are followed when the
    tables are written. Tables that `modes` names are landed instead. `engine`: what writes small tables. `ca`: the
    authorities of a Flight door with TLS. `expectations` are evaluated before the tables are written.

    Raises LakeError for a batch that goes back. Any error but TableStopped is raised when all tables are at rest. What
    they committed stays; when the claim comes again, they add nothing.
    """
    if not claim.start < claim.end:
        raise LakeError(
            f"the batch goes from {claim.start} to {claim.end}",
            place=f"batch {claim.batch_id}",
            hint="The batch was given back and nothing was written: restart the service, and report this.",
        )
    lake.check_writable()
    fence = fence or Fence(lake, sessions)
    sampled = set() if sampled is None else sampled
    held = frozenset(stopped)
    cascading = cascades.tables(claim) if cascades and modes.any_lands else frozenset[str]()
    batch = Batch(
        claim, lake, sessions, RowsDoor(flight_url, token, ca), run_id, max_splits, sent_rows, fence, clock, policies,
        sampled, held, modes, cascading, notes or Notes(), catch_up, progress or Progress(), engine, expectations,
    )  # fmt: skip
    batch.progress.begin(len(claim.ddl), len({table.name for table in claim.tables} - held))
    unmerged = merge_before_statements(batch, parallelism)
    ddl = follow(replace(batch, stopped=held | unmerged.keys()), parallelism)
    batch.notes.forget({one.table for one in ddl.followed if one.origin})
    late = tuple(unmerged[table] for table in sorted(unmerged.keys() - {*ddl.mended}))
    stopped = {*held, *unmerged, *(refusal.table for refusal in ddl.refused)} - {*ddl.mended}
    kept = snapshots_of(batch)
    tables = [table for table in claim.tables if table.name not in stopped or table.name in kept]
    together = Together(replace(batch, stopped=stopped), tables)
    taken = _side_by_side(parallelism, tables, lambda table: _take(batch, table, stopped, together))
    begun = together.left
    left = [table for table in tables if table.name in begun]
    alone = _side_by_side(parallelism, left, lambda table: _write_or_refuse(batch, begun[table.name]))
    merged = together.done | alone
    results = [merged.get(table.name, taken[table.name][0]) for table in tables]
    broken = [one for _, one in taken.values() if one]
    refused = late + ddl.refused + tuple(one for one in results if isinstance(one, Refusal))
    done = cascades.follow(batch, {*stopped, *(one.table for one in refused)}) if cascades else NOTHING
    applied = tuple(one for one in results if isinstance(one, TableResult))
    landed = tuple(one for one in results if isinstance(one, Landed))
    emptied, unlanded = land_statements(batch, {*stopped, *(one.table for one in refused)})
    refused += tuple(unlanded)
    refused += done.refused
    copies, refused = copied(batch, copier, refused) if copier else ((), refused)
    broken += broken_otherwise(batch, copies, done.unlogged)
    others = {*done.looked_up, *(one.table for one in done.cascaded), *(one.table for one in copies)}
    changed = {*claim.table_names, *others}
    published = _published(batch, changed)
    unpublished = _unpublished(batch, published, changed - {*stopped, *(one.table for one in refused)})
    refused += unpublished
    applied = tuple(one for one in applied if one.table not in {refusal.table for refusal in unpublished})
    whole = {*ddl.mended, *(one.table for one in copies)} & held
    unapplied = tuple(table.name for table in tables if table.name in stopped)
    followed = ddl.followed + copies
    return BatchResult(
        applied, refused, followed, done.cascaded, tuple(sorted(whole)), tuple(broken), unapplied,
        (*landed, *emptied), batch.notes.unreported(), done.looked_up, published,
    )  # fmt: skip


def _published(batch: Batch, changed: Collection[str]) -> tuple[Published, ...]:
    """Publishes the unions whose shards may be `changed`. Raises LakeError."""
    unions = batch.lake.unions
    if batch.claim.ddl:
        return tuple(publish(batch.lake, one) for one in unions.all)
    return tuple(publish(batch.lake, one, changed) for one in unions.among(changed))


def _unpublished(batch: Batch, published: Iterable[Published], going: Collection[str]) -> tuple[Refusal, ...]:
    """Returns the tables, of those that are `going` on, that a union cannot have: their own rows are right."""
    refused = {name: error for one in published for name, error in one.refused.items() if name in going}
    return tuple(Refusal(name, error).with_remedy(batch.claim.destination) for name, error in refused.items())


def _side_by_side(most: int, tables: Sequence[TableRange], take: Callable[[TableRange], _Given]) -> dict[str, _Given]:
    """Returns the result of `take` for each table, up to `most` at a time, the largest first. Raises what `take`
    raises, when all are at rest."""
    with ThreadPoolExecutor(max(1, min(most, len(tables))), thread_name_prefix="merge") as pool:
        futures = {table.name: pool.submit(take, table) for table in sorted(tables, key=lambda table: -table.rows)}
        try:
            wait(futures.values())
        except BaseException:  # the run is being ended: tables that have begun are finished, others do not begin
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {table.name: futures[table.name].result() for table in tables}


def _take(
    batch: Batch, table: TableRange, stopped: Collection[str], together: Together
) -> tuple[_Taken, BrokenSnapshot | None]:
    """Returns the result of one table, None for a stopped one and for one that `together` goes on with; and the
    snapshot that its changes broke. They are kept for the snapshot first, so that its log has what the table has."""
    with together.part(table):
        broken = keep(batch, table)
        if table.name in stopped:
            return None, broken
        with batch.progress.table(table.name):
            return _apply_or_refuse(batch, table, together), broken


def _apply_or_refuse(batch: Batch, table: TableRange, together: Together) -> _Taken:
    try:
        if lands(batch, table) and (landed := land(batch, table)) is not None:
            return landed
        check_unfollowed(batch, table.name)
        merge_log(batch, table.name)
        if together.takes(table):
            return tried_twice(lambda: together.begin(table))
        return tried_twice(lambda: apply_table(batch, table))
    except TableStopped as error:
        return Refusal(table.name, error).with_remedy(batch.claim.destination)


def _write_or_refuse(batch: Batch, begun: ReadyShare) -> TableResult | Refusal:
    try:
        batch.fence.check(begun.ready.path)  # another run may have taken the table over while the job ran
        return tried_twice(lambda: write(batch, begun))
    except TableStopped as error:
        return Refusal(begun.table.name, error).with_remedy(batch.claim.destination)
