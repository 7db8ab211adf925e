"""Applies one claim to the lake, its tables side by side, each in one Delta commit, exactly once.

Promises: a table whose lake version is at or past the batch's end is left alone; a batch claimed again with other
boundaries adds only what is new; a commit that raced another of the same version is skipped by Delta. A table that
cannot take its changes comes back with `stop` set while the others go on. It neither acks nor rolls back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead, flight_info
from cdc_core.errors import LakeError, TableStopped
from cdc_core.session.claim import Claim, TableRange
from spark_jobs.checks import TableResult
from spark_jobs.defaults import UNKNOWN_DEFAULT, backfill, of_inserts
from spark_jobs.evidence import counted, note, of_commit, with_earlier
from spark_jobs.fence import Fence
from spark_jobs.lake import Lake, TableState, app_id, check_owner, lake_errors
from spark_jobs.net_view import load
from spark_jobs.session import Sessions
from spark_jobs.statements import FEWER_COPIES, append_copies, append_upserts, merge_copies, merge_keyed
from spark_jobs.types import RESERVED, LakeColumn, added_columns, check_key, lake_columns
from spark_jobs.whole_rows import NO_SUCH_ROW, whole_copies, whole_rows

_VIEW = "sluice_net"
_TXN = "spark.databricks.delta.write.txn"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_INTEGERS = {"tinyint", "smallint", "int", "bigint", "decimal(20,0)"}
_CODEGEN = "spark.sql.codegen.factoryMode"
_FEW_ROWS = 5_000  # for so few, writing a projection's code costs more than running it; whole stages stay compiled
_ROWS_PER_SPLIT = 50_000
_BUILD = "build the table again from the source, then lift its stop."
_STOPS = {  # what a statement raises in Spark, and what that means for its table
    FEWER_COPIES: (
        "the lake has fewer copies of a row than the source deleted",
        f"The lake never had those rows: {_BUILD}",
    ),
    NO_SUCH_ROW: (
        "an update tells only what changed, and the lake does not have its row",
        f"The lake never had that row: SET GLOBAL binlog_row_image=FULL, or {_BUILD}",
    ),
    UNKNOWN_DEFAULT: (
        "an insert leaves out a column whose default is not known here",
        f"SET GLOBAL binlog_row_image=FULL (sessions may override it), {_BUILD}",
    ),
}
_PRUNED_BYTES = 8 << 20  # read in about the time that code is compiled in


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
        state = batch.fence.enter(path, app, state)
    after = state.applied if state else None
    keyed, complete = bool(table.schema.primary_key), state is not None and state.complete
    result = TableResult(table.name, keyed, complete, after=after, version=end)
    if state and after is not None and after >= end:
        done = replace(result, replayed=True, delta_version=state.version, applied_at=batch.clock())
        return with_earlier(batch.lake, path, claim, done)
    splits = max(1, min(batch.max_splits, -(-table.rows // _ROWS_PER_SPLIT)))
    read = flight_info(batch.flight_url, claim, table.name, after=after, splits=splits, token=batch.token or None)
    with batch.sessions.take() as spark, lake_errors(path):
        state, result = _prepare(batch, spark, path, read, state, app, result)
        metadata = note(claim, table.name, batch.run_id, after, read.counts)
        if read.tickets:
            small = 0 if state.fresh else batch.local_rows  # an append that comes late is not the same again
            load(spark, read, _VIEW, batch.flight_url, batch.token, small)
            with _transaction(spark, app, end, metadata, few=read.rows <= _FEW_ROWS):
                _run(spark, _statement(batch.lake, path, read, state), path)
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


def _statement(lake: Lake, path: str, read: TableRead, state: TableState) -> str:
    names = [name for name in read.schema.names if name not in RESERVED]
    key, view = read.table.primary_key, _VIEW
    if read.counts.get("partial"):
        view = _whole(path, read)
    if not key:
        grows = read.counts["insert_only"]
        return append_copies(path, view, names) if grows else merge_copies(path, view, names)
    if state.fresh:
        return append_upserts(path, view, names)
    return merge_keyed(path, view, names, key, read.counts, _prunes(lake, path, read, state))


def _whole(path: str, read: TableRead) -> str:
    """A query in the view's place where images leave columns out."""
    columns, key = lake_columns(read.schema, read.table, partial=True), read.table.primary_key
    defaults = of_inserts(read.table, columns)
    if not key:
        return whole_copies(_VIEW, columns, defaults)
    return whole_rows(path, _VIEW, columns, key, defaults, gone=bool(read.counts["deletes"]))


def _prunes(lake: Lake, path: str, read: TableRead, state: TableState) -> bool:
    """Whether the batch's range of keys leaves out files enough: its bounds are constants in generated code, which
    Spark then compiles anew for every batch."""
    key, low, high = read.table.primary_key, read.counts.get("min_key"), read.counts.get("max_key")
    if low is None or high is None or len(key) != 1 or _type_of(state.columns, key[0]) not in _INTEGERS:
        return False
    return lake.bytes_beyond(path, key[0], int(low), int(high)) >= _PRUNED_BYTES


def _type_of(columns: Collection[LakeColumn], name: str) -> str:
    return next((column.type for column in columns if column.name == name), "")


@contextmanager
def _transaction(spark: SparkSession, app: str, version: int, metadata: str, *, few: bool) -> Iterator[None]:
    """The session's commits carry the batch's version, and none after it does."""
    settings = {f"{_TXN}AppId": app, f"{_TXN}Version": str(version), _METADATA: metadata}
    if few:
        settings[_CODEGEN] = "NO_CODEGEN"
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        with suppress(PySparkException):  # an error of its own is on its way; `Sessions` ends such a session
            for key in settings:
                spark.conf.unset(key)


def _run(spark: SparkSession, statement: str, path: str) -> None:
    try:
        spark.sql(statement).collect()
    except PySparkException as error:
        for marker, (message, hint) in _STOPS.items():
            if marker in str(error):
                told = str(error).partition(marker + ": ")[2].partition("\n")[0][:100]
                raise TableStopped(f"{message} ({told})", place=path, hint=hint) from error
        raise


def _measured(lake: Lake, path: str, claim: Claim, metadata: str, result: TableResult) -> TableResult:
    """The numbers of the commit. One that Delta skipped, because another try was faster, left none: that one counts."""
    own = next((commit for commit in lake.commits(path) if commit.get("userMetadata") == metadata), None)
    if own is not None:
        return of_commit(own, result)
    return with_earlier(lake, path, claim, replace(result, replayed=True, after=result.version, parts=()))
