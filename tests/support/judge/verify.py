"""Compares source and lake at one position of the binlog, table by table.

The source is read in one consistent snapshot, the lake with delta-rs. A lake that is past the snapshot's position is an
error, not a difference. Memory is bounded: rows go through a scratch directory, and large tables are compared in parts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition, split_version
from cdc_core.schema.names import full_name
from spark_jobs.following.pending import Follows
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, spark_type
from spark_jobs.snapshot.binlog import position, reaches
from spark_jobs.snapshot.source import Source
from spark_jobs.verify.comparer import await_merged
from spark_jobs.verify.definition import LakeDefinition, definition_differences
from spark_jobs.verify.verified import Comparison, Verified, or_why_not
from tests.support.judge.at_rest import SETTLE_SECONDS, snapshot
from tests.support.judge.compare import compare
from tests.support.judge.oracle import OracleTable, describe, exists, stream


@dataclass(frozen=True, slots=True)
class Reader:
    """The client whose tables the lake has. `cursor` asks how far it has acked."""

    destination: str
    client_id: int
    epoch: int
    cursor: Callable[[], EntryPosition | None]


def verify(
    source: Source,
    tables: Iterable[tuple[str, str]],
    lake: Lake,
    reader: Reader,
    *,
    besides: Iterable[tuple[str, str]] = (),
    timeout_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Verified]:
    """Compares each (database, table). A table that cannot be compared says why, and the others go on. `besides` are
    tables that the lake had: those that it still has, and the source has not, are reported.

    Raises LakeError when the lake does not reach the snapshot's position in time.
    """
    deadline = clock() + timeout_seconds
    with snapshot(source, lambda: clock() < deadline, sleep) as (connection, place):
        await_lake(connection, reader, place, lambda: clock() < deadline, sleep)
        for database, table in tables:
            yield _verified(connection, database, table, lake, reader, place, lambda: clock() < deadline, sleep)
        for database, table in besides:
            if _dropped_unseen(connection, database, table, lake, reader, lambda: clock() < deadline, sleep):
                error = "the lake has the table, and the source does not: its DROP was not captured"
                yield Verified(full_name(database, table), None, place, error=error)


def _dropped_unseen(
    connection: pymysql.Connection[Any],
    database: str,
    table: str,
    lake: Lake,
    reader: Reader,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None],
) -> bool:
    """Whether the lake has a table that the source has not, when it has followed every statement up to now: the table
    may have been dropped or renamed after the tables of the lake were listed. Raises LakeError."""
    if exists(connection, database, table):
        return False
    sleep(SETTLE_SECONDS)  # MySQL 5.7 drops a table a moment before the binlog has the statement
    await_lake(connection, reader, position(connection), in_time, sleep)
    return lake.is_live(full_name(database, table))


def _verified(
    connection: pymysql.Connection[Any],
    database: str,
    table: str,
    lake: Lake,
    reader: Reader,
    position: EntryPosition,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None],
) -> Verified:
    name = full_name(database, table)

    def compared() -> Verified:
        await_merged(Follows(lake, reader.destination, reader.client_id), name, in_time, sleep)
        comparison, definition = _compare_table(connection, database, table, lake, reader, position)
        return Verified(name, comparison, position, definition)

    return or_why_not(name, position, compared)


def _compare_table(
    connection: pymysql.Connection[Any],
    database: str,
    table: str,
    lake: Lake,
    reader: Reader,
    position: EntryPosition,
) -> tuple[Comparison, tuple[str, ...]]:
    """Rows and definition. Dates that the lake has as text (`sluice.zero.dates=string`) are read as text."""
    path = lake.path(database, table)
    state = lake.state(path, app_id(reader.destination, reader.client_id, full_name(database, table), reader.epoch))
    texts = {column.name for column in state.columns if column.type == "string"} if state else ()
    oracle = describe(connection, database, table, texts)
    if state and state.applied is not None and state.applied > position.version():
        number, offset = split_version(state.applied)
        message = f"the lake is at journal {number}:{offset} already, the source was read at {position}"
        raise LakeError(message, place=oracle.name, hint="Stop the writes at the source, then verify again.")
    with tempfile.TemporaryDirectory(prefix="sluice-verify-") as scratch:
        rows = pa.RecordBatchReader.from_batches(oracle.schema, stream(connection, oracle))
        write_deltalake(scratch, rows)
        there = lake.open(path) if state else None
        waits = state is not None and state.dropped  # its first row brings the definition
        found = compare(DeltaTable(scratch), there, oracle.schema.names, oracle.key, oracle.name, waits=waits)
    if there is None or state is None or state.dropped:
        return found, ()
    return found, definitions_compared(oracle, there, state)


def definitions_compared(oracle: OracleTable, table: DeltaTable, state: TableState) -> tuple[str, ...]:
    """A sentence for each difference between the definitions of a source table and the lake's."""
    columns = [LakeColumn(column.name, spark_type(column.type), column.comment) for column in oracle.columns]
    return definition_differences(columns, oracle.comment, _definition(table, state))


def _definition(table: DeltaTable, state: TableState) -> LakeDefinition:
    refusing = tuple(field.name for field in table.schema().fields if not field.nullable)
    return LakeDefinition(state.columns, table.metadata().description or "", refusing)


def await_lake(
    connection: pymysql.Connection[Any],
    reader: Reader,
    position: EntryPosition,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None],
) -> None:
    """Waits until every row before `position` is acked. Raises LakeError when that is not in time."""
    while True:
        cursor = reader.cursor()
        if cursor is not None and reaches(connection, cursor, position):
            return
        if not in_time():
            hint = (
                "Is the service running, and does Dagster drain it? Give more time, or stop the writes at the source."
            )
            message = f"the lake has not reached {position}: acked to {cursor}"
            raise LakeError(message, place=f"{reader.destination}/{reader.client_id}", hint=hint)
        sleep(0.5)
