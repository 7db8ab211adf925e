"""Reads rows of a table by SELECT, as Arrow, a batch at a time: with the decoder's types and values for the binlog.

Memory holds one batch. Each statement is one consistent read of the engine; the order of rows is the server's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pymysql

from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.chunk import COMPARED
from spark_jobs.snapshot.failures import READ_AGAIN, source_error
from spark_jobs.snapshot.limits import Limits, RateLimit
from spark_jobs.snapshot.resultset.answers import widths
from spark_jobs.snapshot.resultset.columns import decode
from spark_jobs.snapshot.resultset.question import AS_STORED, question
from spark_jobs.snapshot.resultset.statement import executed
from spark_jobs.snapshot.source import Source, connect

_ROWS = 65_536  # a batch has no more rows,
_CELLS = 1 << 21  # nor more cells, however many columns there are
_STALLED = 600.0  # seconds without a byte, after which a source that answers the network counts as gone
_QUIET, _AGAIN, _TRIES = 60, 15, 4  # seconds of silence, seconds between probes, and probes until a host counts as gone


def read_chunk(
    source: Source, schema: TableSchema, where: str, zero_dates: ZeroDates = "fail", limits: Limits | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows for which the condition holds, all if it is "", over a connection of its own.

    Raises SourceError and SourceUnavailable, which name the table and the condition; SchemaError if the table no longer
    has the definition `schema`; DecodeError for a refused value.
    """
    yield from read_chunks(source, schema, [where], zero_dates, limits)


def read_chunks(
    source: Source,
    schema: TableSchema,
    conditions: list[str],
    zero_dates: ZeroDates = "fail",
    limits: Limits | None = None,
) -> Iterator[pa.RecordBatch]:
    """One chunk after the other over one connection, each as of its own time. Raises what `read_chunk` raises."""
    limits = limits or Limits()
    pace = RateLimit(limits.rows_per_second)
    with reading_connection(source) as connection:
        for where in conditions:
            try:
                yield from read_rows(connection, schema, zero_dates, where, limits, pace)
            except pymysql.MySQLError as error:
                what = f"{schema.name}, chunk {where}" if where else schema.name
                raise source_error(error, source, what, READ_AGAIN) from error


@contextmanager
def reading_connection(source: Source) -> Iterator[pymysql.Connection[Any]]:
    """A connection whose statements are each one consistent read. It notices a source that is gone. Raises what
    `connect` raises."""
    connection = connect(source)
    try:
        _probe(connection)
        connection.autocommit(True)
        yield connection
    finally:
        connection._force_close()  # type: ignore[attr-defined]


def read_rows(
    connection: pymysql.Connection[Any],
    schema: TableSchema,
    zero_dates: ZeroDates,
    where: str = "",
    limits: Limits | None = None,
    pace: RateLimit | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows over a connection that may be within a snapshot. It takes no other command until they are read.

    Raises pymysql's errors, SchemaError and DecodeError.
    """
    limits = limits or Limits()
    pace = pace or RateLimit(limits.rows_per_second)
    with connection.cursor() as cursor:
        cursor.execute(AS_STORED)
        if where:
            cursor.execute(COMPARED)
    with executed(connection, question(schema, where), limits.batch_bytes) as (answers, packets):
        wide = widths(schema, answers)
        starts, more = row_starts(len(wide), pace.rows), True
        while more:
            count, more = packets.rows(wide, starts)
            if count:
                part = starts[:, :count]
                rows = decode(schema, packets.data, part, wide, zero_dates=zero_dates, place=lambda _: where)
                if rows.num_rows:
                    yield rows
                pace.passed(count)


def row_starts(columns: int, rows: float = _ROWS) -> npt.NDArray[np.int64]:
    """Room for where the cells of a batch start."""
    return np.empty((columns, int(max(1, min(_ROWS, _CELLS // columns, rows)))), np.int64)


def _probe(connection: pymysql.Connection[Any]) -> None:
    """Sets timeouts that notice within two minutes that the host is gone, however long a query takes; and that a server
    sends nothing, because it hangs, or somebody keeps the table locked."""
    sock: socket.socket = connection._sock  # type: ignore[attr-defined]
    sock.settimeout(_STALLED)
    with suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _QUIET)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _AGAIN)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _TRIES)
