"""Compares source and lake at one position of the binlog, table by table.

The source is read in one consistent snapshot whose position is known, with nothing more than SELECT and REPLICATION
CLIENT: the position stood still around the snapshot's start. The lake is read with delta-rs: neither side goes through
the decoder or the engine that wrote. A lake that is already past the position is an error, not a difference.
Memory is bounded: rows go through a scratch directory, and large tables are compared part by part.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pymysql
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import LakeError, SourceError, SourceUnavailable
from cdc_core.position import EntryPosition, split_version
from spark_jobs.compare import Comparison, compare
from spark_jobs.lake import Lake, app_id
from spark_jobs.oracle import describe, stream

_QUIET = ("Format_desc", "Previous_gtids", "Rotate", "Stop", "Gtid_list", "Binlog_checkpoint", "Start_encryption")
_SETTLE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Source:
    """The MySQL server to compare with."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    ssl: dict[str, Any] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Reader:
    """Whose tables the lake has: with `cursor`, which tells how far they are acked."""

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
    timeout_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[dict[str, Any]]:
    """One dict a table: table, source_rows, lake_rows, missing, extra, different, position.

    Raises LakeError when the lake does not reach the snapshot's position in time, or is beyond it.
    """
    deadline = clock() + timeout_seconds
    with _snapshot(source, lambda: clock() < deadline, sleep) as (connection, position):
        _wait(connection, reader, position, lambda: clock() < deadline, sleep)
        for database, table in tables:
            result = _verify_table(connection, database, table, lake, reader, position)
            yield {
                "table": f"{database}.{table}",
                "source_rows": result.source_rows,
                "lake_rows": result.lake_rows,
                "missing": result.missing,
                "extra": result.extra,
                "different": result.different,
                "position": str(position),
            }


def _verify_table(
    connection: pymysql.Connection[Any],
    database: str,
    table: str,
    lake: Lake,
    reader: Reader,
    position: EntryPosition,
) -> Comparison:
    """Dates that the lake has as text (`sluice.zero.dates=string`) are asked for as text."""
    path = lake.path(database, table)
    state = lake.state(path, app_id(reader.destination, reader.client_id, f"{database}.{table}", reader.epoch))
    texts = {column.name for column in state.columns if column.type == "string"} if state else ()
    oracle = describe(connection, database, table, texts)
    if state and state.applied is not None and state.applied > position.version():
        number, offset = split_version(state.applied)
        message = f"the lake is at journal {number}:{offset} already, the source was read at {position}"
        raise LakeError(message, place=oracle.name, hint="Stop the writes at the source, then verify again.")
    with tempfile.TemporaryDirectory(prefix="sluice-verify-") as scratch:
        rows = pa.RecordBatchReader.from_batches(oracle.schema, stream(connection, oracle))
        write_deltalake(scratch, rows)
        there = DeltaTable(path, storage_options=lake.storage or None) if state else None
        return compare(DeltaTable(scratch), there, oracle.schema.names, oracle.key, oracle.name)


@contextmanager
def _snapshot(
    source: Source, in_time: Callable[[], bool], sleep: Callable[[float], None]
) -> Iterator[tuple[pymysql.Connection[Any], EntryPosition]]:
    """A connection within a snapshot, and its position: the same before and after, with a pause between, since a
    transaction stands in the binlog a moment before the engine shows it."""
    connection = _connect(source)
    try:
        while True:
            before = _position(connection)
            sleep(_SETTLE_SECONDS)
            with connection.cursor() as cursor:
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            if before == _position(connection):
                break
            connection.rollback()
            if not in_time():
                hint = "Stop the writes at the source, or give more time."
                raise SourceError("the source does not come to rest", place=source.address, hint=hint)
        yield connection, before
    finally:
        connection.close()


def _connect(source: Source) -> pymysql.Connection[Any]:
    try:
        connection = pymysql.connect(
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password,
            ssl=source.ssl,
            charset="utf8mb4",
            init_command="SET time_zone = '+00:00', net_write_timeout = 3600",
        )
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    except pymysql.MySQLError as error:
        hint = "Check the address, account and password in conf/{destination}/instance.properties."
        raise SourceUnavailable(f"cannot connect: {error.args[-1]}", place=source.address, hint=hint) from error
    return connection


def _position(connection: pymysql.Connection[Any]) -> EntryPosition:
    """Where the binlog ends. MySQL 8.4 renamed the statement."""
    with connection.cursor() as cursor:
        for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
            try:
                cursor.execute(statement)
            except pymysql.err.ProgrammingError:
                continue
            row = cursor.fetchone()
            if row:
                return EntryPosition(str(row[0]), int(row[1]))
    hint = "Set log_bin and restart the server; GRANT REPLICATION CLIENT to the account."
    raise SourceError("the server tells no binlog position", place="SHOW MASTER STATUS", hint=hint)


def _wait(
    connection: pymysql.Connection[Any],
    reader: Reader,
    position: EntryPosition,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None],
) -> None:
    while True:
        cursor = reader.cursor()
        if cursor is not None and (cursor >= position or _nothing_between(connection, cursor, position)):
            return
        if not in_time():
            hint = (
                "Is the service running, and does Dagster drain it? Give more time, or stop the writes at the source."
            )
            message = f"the lake has not reached {position}: acked to {cursor}"
            raise LakeError(message, place=f"{reader.destination}/{reader.client_id}", hint=hint)
        sleep(0.5)


def _nothing_between(connection: pymysql.Connection[Any], low: EntryPosition, high: EntryPosition) -> bool:
    """Whether only file headers and ends lie between: no cursor ever moves over them alone."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        names = [name for (name, *_) in cursor.fetchall() if low.order[0] <= EntryPosition(name, 0).order[0]]
        for name in names:
            start = low.position if name == low.journal_name else 4
            cursor.execute(f"SHOW BINLOG EVENTS IN '{name}' FROM {int(start)} LIMIT 8")
            events = cursor.fetchall()
            if any(event[2] not in _QUIET and EntryPosition(name, int(event[1])) < high for event in events):
                return False
    return True
