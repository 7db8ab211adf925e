"""Reads one table in one view of the source: its place and its definition fit its rows.

`copy_table` makes the lake's table of it, while the caller holds a claim. It loads tables whose changes no log can keep
(images that leave columns out), and tables of a run that has the claim already. Rows of the stream up to the place are
left out afterwards, rows after it apply once. Until the commit the old table stays whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql

from cdc_core.errors import SourceError
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import definition
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.load.staging import StagedRows, Staging, temporary
from spark_jobs.load.switch import Load, entered, switch
from spark_jobs.session import Sessions
from spark_jobs.snapshot.binlog import ddl_on, position
from spark_jobs.snapshot.failures import source_error
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.place import SnapshotPlace, begin
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.snapshot.sql import quote

_TRIES = 10
_GONE = (1146, 1049)  # ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR
_CHANGED = 1412  # ER_TABLE_DEF_CHANGED
_NO_TABLES = ("VIEW", "SEQUENCE")


@dataclass(frozen=True, slots=True)
class Opened:
    """`connection` is in the snapshot, and keeps the definition as it is until it ends."""

    connection: pymysql.Connection[Any]
    place: SnapshotPlace
    schema: TableSchema


@contextmanager
def opened(
    source: Source, database: str, table: str, *, as_text: bool, sleep: Callable[[float], None]
) -> Iterator[Opened | NoSuchTable]:
    """Yields the table in a view. `as_text`: dates are read as text. Raises SourceError if there is no place, or if DDL
    statements never end."""
    connection = connect(source)
    try:
        found = _open(connection, source, database, table, sleep)
        if isinstance(found, Opened):
            schema = source.seen(found.schema, "string" if as_text else "fail")
            found = Opened(connection, found.place, schema)
        yield found
    except pymysql.MySQLError as error:
        raise source_error(error, source, full_name(database, table)) from error
    finally:
        connection.close()


def readable(connection: pymysql.Connection[Any], database: str, table: str) -> TableSchema | None:
    """Returns the definition of a table that may be read, or None if the source has no such table. Raises SourceError
    for views and tables that the lake cannot have, and pymysql's errors if the account may not see the table."""
    schema = definition(connection, database, table)
    if schema is not None and schema.columns:
        return None if schema.is_sequence else schema
    if not touch(connection, database, table):
        return None
    kind, place = _kind(connection, database, table), full_name(database, table)
    if kind == "SYSTEM VERSIONED":
        raise _versioned(place)
    raise SourceError(f"it is a {kind.lower()}, not a table", place=place, hint="Name the tables that it reads.")


def _versioned(place: str) -> SourceError:
    hint = "Leave it out with canal.instance.filter.black.regex, or drop its versioning; then copy it again."
    return SourceError("its history cannot be copied", place=place, hint=hint)


def _open(
    connection: pymysql.Connection[Any], source: Source, database: str, table: str, sleep: Callable[[float], None]
) -> Opened | NoSuchTable:
    for _ in range(_TRIES):
        before = definition(connection, database, table)
        by_key = before is not None and bool(before.primary_key) and whole_images(connection)
        place = begin(connection, source, database, table, by_key=by_key, sleep=sleep)
        there: bool | None = False
        if _kind(connection, database, table) not in _NO_TABLES:  # a broken view cannot be touched
            there = touch(connection, database, table)
        schema = definition(connection, database, table)
        if (kind := _kind(connection, database, table)) in _NO_TABLES:
            there, schema = False, None
        statement = ddl_on(connection, database, table, place.low, position(connection))
        if there and schema is None and kind == "SYSTEM VERSIONED":
            raise _versioned(full_name(database, table))
        if there is not None and statement is None and there == (schema is not None):
            return Opened(connection, place, schema) if schema else NoSuchTable(database, table, place, kind)
        connection.rollback()
        sleep(1.0)
    hint = "Wait until the statements that change the table have ended, then copy it again."
    raise SourceError(
        "the table's definition keeps changing", place=f"{source.address} {full_name(database, table)}", hint=hint
    )


def touch(connection: pymysql.Connection[Any], database: str, table: str) -> bool | None:
    """Whether the table exists; its definition cannot change from now on. None if it has changed already."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT 1 FROM {quote(database)}.{quote(table)} LIMIT 1")  # noqa: S608
        except pymysql.MySQLError as error:
            code = error.args[0]
            if code in _GONE:
                return False
            if code == _CHANGED:
                return None
            raise
    return True


def _kind(connection: pymysql.Connection[Any], database: str, table: str) -> str:
    """Returns the kind of object with a table's name, or ""."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (database, table),
        )
        row = cursor.fetchone()
    return str(row[0]).upper() if row else ""


def whole_images(connection: pymysql.Connection[Any]) -> bool:
    """Whether the server's row images leave no column out, unless a session sets another format."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.binlog_row_image")
        row = cursor.fetchone()
    return row is not None and str(row[0]).upper() == "FULL"


def copy_table(
    source: Source,
    target: Target,
    sessions: Sessions,
    *,
    zero_dates: ZeroDates = "fail",
    progress: Callable[[int], None] = lambda _: None,
    confirm: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
    expectations: Expectations = NO_EXPECTATIONS,
) -> Copied | NoSuchTable:
    """Reloads the lake's table. If the source has no such table, nothing is written, nor if its rows break one of the
    `expectations`.

    `progress` is called with the number of rows so far. `confirm` is called before the commit, and raises if the caller
    lost the claim that keeps rows after the place from being acked.
    Raises SourceError if there is no position (`snapshot.place`), TableStopped for a table that a lake cannot have or
    that somebody else made, DecodeError for a refused value, WentOn when another run wrote the table meanwhile.
    """
    target.lake.check_writable()
    before, as_text = entered(target), zero_dates == "string"
    with (
        opened(source, target.database, target.table, as_text=as_text, sleep=sleep) as there,
        temporary(target.lake, target.client.destination) as staging,
    ):
        if isinstance(there, NoSuchTable):
            return there
        staged = stage_view(staging, there, zero_dates, progress)
        return switch(target, sessions, Load.of(staged), before, confirm, expectations=expectations)


def stage_view(
    staging: Staging,
    there: Opened,
    zero_dates: ZeroDates,
    progress: Callable[[int], None],
    limits: Limits | None = None,
) -> StagedRows:
    """Stages all rows of a table that is opened in one view. `progress` is called with the number of rows so far.

    Raises DecodeError for a refused value, LakeError if they cannot be staged, and pymysql's errors.
    """

    def counted() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in read_rows(there.connection, there.schema, zero_dates, limits=limits):
            rows += batch.num_rows
            progress(rows)
            yield batch

    return StagedRows(staging.path, there.schema, there.place, staging.write(counted(), there.schema))
