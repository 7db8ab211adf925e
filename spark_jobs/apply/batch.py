"""Applies all tables of one claim, several at the same time, each in one Delta commit.

A table that cannot take its changes stops while the others go on; so does one whose changes Spark refuses twice.
Nothing here acks or rolls back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from cdc_core.contract.claim import Claim, TableRange
from cdc_core.errors import LakeError, TableStopped
from spark_jobs.apply.cascade import NOTHING, Cascades
from spark_jobs.apply.ddl.copies import Copier, copied
from spark_jobs.apply.ddl.follow import Following, follow
from spark_jobs.apply.ddl.passing import check_unfollowed
from spark_jobs.apply.kept import broken_otherwise, keep, snapshots_of
from spark_jobs.apply.landing import land, land_statements, lands, merge_before_statements, merge_log
from spark_jobs.apply.result import BatchResult, BrokenSnapshot, Cascaded, Followed, Refusal, TableResult
from spark_jobs.apply.table import Batch, ReadyShare, apply_table, write
from spark_jobs.apply.together import Together
from spark_jobs.apply.united import unite
from spark_jobs.lake.failures import tried_twice
from spark_jobs.landing.append import Landed

_Given = TypeVar("_Given")
_Taken = TableResult | Landed | Refusal | None


@dataclass(frozen=True, slots=True)
class _Statements:
    """The claim's DDL statements, followed. `refused`: also tables whose change logs could not be merged before them.
    `stopped`: the tables that take no rows of the claim."""

    ddl: Following
    refused: tuple[Refusal, ...]
    stopped: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Tables:
    """The claim's tables, written. `results`: in the claim's order, without tables that were stopped before."""

    results: tuple[TableResult | Landed | Refusal, ...]
    broken: tuple[BrokenSnapshot, ...]
    unapplied: tuple[str, ...]


def apply_batch(
    batch: Batch,
    parallelism: int = 4,
    *,
    cascades: Cascades | None = None,
    copier: Copier | None = None,
    unions_whole: bool = False,
) -> BatchResult:
    """Follows the claim's DDL statements, then applies every table, except stopped tables that no statement mended;
    both up to `parallelism` at a time. Changes of tables with an open snapshot are kept for it, also of stopped tables.
    `cascades` are followed when the tables are written; `copier` copies small tables that need it.
    `unions_whole`: all shards of all unions are looked at, not only those of the claim.

    Raises LakeError for a batch that goes back. Any error but TableStopped is raised when all tables are at rest. What
    they committed stays; when the claim comes again, they add nothing.
    """
    claim = batch.claim
    _check_range(claim)
    batch.lake.check_writable()
    if cascades and batch.modes.any_lands:
        batch = replace(batch, cascading=cascades.tables(claim))
    batch.progress.begin(len(claim.ddl), len({table.name for table in claim.tables} - {*batch.stopped}))
    statements = _follow_statements(batch, parallelism)
    tables = _apply_tables(batch, statements.stopped, parallelism)
    refused = statements.refused + tuple(one for one in tables.results if isinstance(one, Refusal))
    resting = {*statements.stopped, *_names(refused)}
    cascaded = cascades.follow(batch, resting) if cascades else NOTHING
    emptied, unlanded = land_statements(batch, resting)
    refused += (*unlanded, *cascaded.refused)
    copies, refused = copied(batch, copier, refused) if copier else ((), refused)
    changed = {*claim.table_names, *cascaded.looked_up, *_names(cascaded.cascaded), *_names(copies)}
    resting = {*statements.stopped, *_names(refused)}
    united = unite(batch, changed, resting, copier, whole=bool(claim.ddl) or unions_whole)
    copies += united.copied
    broken = (*tables.broken, *broken_otherwise(batch, copies, cascaded.unlogged))
    applied = (one for one in tables.results if isinstance(one, TableResult))
    return BatchResult(
        applied=tuple(one for one in applied if one.table not in united.left_out),
        refused=refused + united.refused,
        followed=statements.ddl.followed + copies,
        cascaded=cascaded.cascaded,
        whole=tuple(sorted({*statements.ddl.mended, *_names(copies)} & {*batch.stopped})),
        broken=broken,
        unapplied=tables.unapplied,
        landed=(*(one for one in tables.results if isinstance(one, Landed)), *emptied),
        instead=batch.notes.unreported(),
        looked_up=cascaded.looked_up,
        published=united.published,
    )


def _check_range(claim: Claim) -> None:
    """Raises LakeError for a claim that ends where it begins, or before."""
    if not claim.start < claim.end:
        raise LakeError(
            f"the batch goes from {claim.start} to {claim.end}",
            place=f"batch {claim.batch_id}",
            hint="The batch was given back and nothing was written: restart the service, and report this.",
        )


def _names(results: Iterable[Refusal | Followed | Cascaded]) -> set[str]:
    return {one.table for one in results}


def _follow_statements(batch: Batch, parallelism: int) -> _Statements:
    """Merges the change logs that the statements need merged, then follows the statements."""
    unmerged = merge_before_statements(batch, parallelism)
    ddl = follow(replace(batch, stopped={*batch.stopped, *unmerged}), parallelism)
    batch.notes.forget({one.table for one in ddl.followed if one.origin})
    mended = {*ddl.mended}
    late = tuple(unmerged[table] for table in sorted(unmerged.keys() - mended))
    stopped = {*batch.stopped, *unmerged, *_names(ddl.refused)} - mended
    return _Statements(ddl, late + ddl.refused, frozenset(stopped))


def _apply_tables(batch: Batch, stopped: Collection[str], parallelism: int) -> _Tables:
    """Applies the claim's tables that are not `stopped`: the small ones by one job, the others each by itself."""
    kept = snapshots_of(batch)
    tables = [table for table in batch.claim.tables if table.name not in stopped or table.name in kept]
    together = Together(replace(batch, stopped=stopped), tables)
    taken = _side_by_side(parallelism, tables, lambda table: _take(batch, table, stopped, together))
    begun = together.left
    left = [table for table in tables if table.name in begun]
    alone = _side_by_side(parallelism, left, lambda table: _write_or_refuse(batch, begun[table.name]))
    written = together.done | alone
    results = (written.get(table.name, taken[table.name][0]) for table in tables)
    return _Tables(
        tuple(one for one in results if one is not None),
        tuple(one for _, one in taken.values() if one),
        tuple(table.name for table in tables if table.name in stopped),
    )


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
