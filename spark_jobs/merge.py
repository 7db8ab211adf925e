"""Applies one claim to the lake, its tables side by side, each in one Delta commit, exactly once.

Promises: a table whose lake version is at or past the batch's end is left alone; a batch claimed again with other
boundaries adds only what is new; a commit that raced another of the same version is skipped by Delta. A table that
cannot take its changes comes back with `stop` set while the others go on. It neither acks nor rolls back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead, flight_info
from cdc_core.errors import LakeError, TableStopped
from cdc_core.session.claim import Claim, TableRange
from spark_jobs.checks import TableResult
from spark_jobs.choice import statement
from spark_jobs.commit import FEW_ROWS, run, transaction
from spark_jobs.defaults import backfill
from spark_jobs.epochs import again, earlier_apps, merging, told_again
from spark_jobs.evidence import counted, note, of_commit, with_earlier
from spark_jobs.fence import Fence
from spark_jobs.lake import Lake, TableState, app_id, check_owner, lake_errors
from spark_jobs.net_view import load
from spark_jobs.session import Sessions
from spark_jobs.types import LakeColumn, added_columns, check_key, lake_columns

_VIEW = "sluice_net"
_ROWS_PER_SPLIT = 250_000  # a worker and a connection each, which smaller ones are not worth


@dataclass(frozen=True, slots=True)
class Batch:
    """A claim with what all its tables need."""

    claim: Claim
    lake: Lake
    sessions: Sessions
    flight_url: str
    token: str
    run_id: str
    max_splits: int
    local_rows: int
    fence: Fence
    clock: Callable[[], float]


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
    local_rows: int = 100_000,
    stopped: Collection[str] = (),
    fence: Fence | None = None,
    clock: Callable[[], float] = time.time,
) -> list[TableResult]:
    """Applies every table of the claim that is not `stopped`; results in the claim's order.

    Plans of up to `local_rows` rows are sent along with the statement instead of being pulled by Spark's workers: a
    Python worker that is started to plan and to read costs more than they do, and Spark knows how few they are.

    A run gives all its batches the same `fence`.

    Any error but TableStopped is raised when all tables are at rest; what they committed stays and is replayed as
    nothing the next time.
    """
    lake.check_writable()
    fence = fence or Fence(lake, sessions)
    batch = Batch(claim, lake, sessions, flight_url, token, run_id, max_splits, local_rows, fence, clock)
    tables = [table for table in claim.tables if table.name not in stopped]
    largest_first = sorted(tables, key=lambda table: -table.rows)
    with ThreadPoolExecutor(max(1, min(parallelism, len(tables))), thread_name_prefix="merge") as pool:
        futures = {table.name: pool.submit(_apply_or_stop, batch, table) for table in largest_first}
        try:
            wait(futures.values())
        except BaseException:  # the run is being ended: what has begun comes to its end, the rest does not begin
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [futures[table.name].result() for table in tables]


def _apply_or_stop(batch: Batch, table: TableRange) -> TableResult:
    try:
        return apply_table(batch, table)
    except TableStopped as stop:
        return TableResult(table.name, keyed=bool(table.schema.primary_key), stop=stop)


def apply_table(batch: Batch, table: TableRange) -> TableResult:
    """One table's share of a batch."""
    claim, began = batch.claim, time.perf_counter()
    path = batch.lake.path(table.schema.database, table.schema.table)
    app, end = app_id(claim.destination, claim.client_id, table.name, claim.epoch), claim.end.version()
    state = batch.lake.state(path, app)
    if state:
        check_owner(state, claim.destination, table.schema, path)
        state = batch.fence.enter(path, app, state, earlier_apps(claim, table.name))
    keyed, complete = bool(table.schema.primary_key), state is not None and state.complete
    floor = told_again(batch.lake, path, claim, table.name, keyed=keyed) if state else None
    after = state.applied if state else None
    if not keyed and floor is not None:
        after = max(after or 0, floor)
    there = keyed and again(floor, after, claim.start.version())
    result = TableResult(table.name, keyed, complete, after=after, version=end, floor=floor, again=there)
    if state and after is not None and after >= end:
        done = replace(result, replayed=True, delta_version=state.version, applied_at=batch.clock())
        return with_earlier(batch.lake, path, claim, done)
    splits = max(1, min(batch.max_splits, -(-table.rows // _ROWS_PER_SPLIT)))
    read = flight_info(batch.flight_url, claim, table.name, after=after, splits=splits, token=batch.token or None)
    with batch.sessions.take() as spark, lake_errors(path):
        read = replace(read, counts=merging(read.counts, there=there))
        state, result = _prepare(batch, spark, path, read, state, app, result)
        metadata = note(claim, table.name, batch.run_id, after, read.counts)
        if read.tickets:
            small = 0 if state.fresh else batch.local_rows  # an append that comes late is not the same again
            load(spark, read, _VIEW, batch.flight_url, batch.token, small)
            with transaction(spark, app, end, metadata, few=read.rows <= FEW_ROWS):
                run(spark, statement(batch.lake, path, read, state, _VIEW), path)
    result = replace(result, **counted(read.counts), delta_version=state.version)  # type: ignore[arg-type]
    result = with_earlier(batch.lake, path, claim, result)
    if read.tickets:
        result = _measured(batch.lake, path, claim, metadata, result)
    return replace(result, merge_seconds=time.perf_counter() - began, applied_at=batch.clock())


def _prepare(
    batch: Batch,
    spark: SparkSession,
    path: str,
    read: TableRead,
    state: TableState | None,
    app: str,
    result: TableResult,
) -> tuple[TableState, TableResult]:
    """Makes the table or adds its new columns, before the batch's own transaction."""
    columns = lake_columns(read.schema, read.table, bool(read.counts.get("partial")))
    created = state is None
    added: tuple[LakeColumn, ...] = ()
    if state is None:
        batch.lake.create(spark, path, batch.claim.destination, read.table, columns)
        batch.fence.made(path)
    else:
        check_key(state.primary_key, read.table.primary_key, read.table.name)
        added = added_columns(state.columns, columns, read.table.name)
        if added:
            old_rows = backfill(read.table, added)
            batch.lake.add_columns(spark, path, read.table, columns, added, old_rows)
    if created or added:
        state = batch.lake.state(path, app)
    if state and state.unfilled:
        batch.lake.fill(spark, path, state)
    if state is None:
        hint = "Spark and this process must see the same lake: name it by a path or URI that both can open."
        raise LakeError("the table that Spark made is not there", place=path, hint=hint)
    names = tuple(column.name for column in added)
    return state, replace(result, created=created, added_columns=names, complete=state.complete)


def _measured(lake: Lake, path: str, claim: Claim, metadata: str, result: TableResult) -> TableResult:
    """The numbers of the commit. One that Delta skipped, because another try was faster, left none: that one counts."""
    own = next((commit for commit in lake.commits(path) if commit.get("userMetadata") == metadata), None)
    if own is not None:
        return of_commit(own, result)
    return with_earlier(lake, path, claim, replace(result, replayed=True, after=result.version, parts=()))
