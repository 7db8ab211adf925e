"""Between which places of the source's binlog a snapshot's chunks are read, and that the definition stayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from cdc_core.contract.snapshot import Progress
from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from spark_jobs.copy.registration import Registration
from spark_jobs.copy.result import Broken
from spark_jobs.snapshot.binlog import ddl_on, position
from spark_jobs.snapshot.failures import source_error
from spark_jobs.snapshot.place import settled
from spark_jobs.snapshot.source import Source, connect

_AGAIN = "Start the snapshot again when the statements that change the table have ended."
_ESTIMATE = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"


@contextmanager
def asked(
    source: Source, what: str, again: str = "start the snapshot again: it goes on"
) -> Iterator[pymysql.Connection[Any]]:
    """A connection whose errors are ours. `what` is read; `again` is what starts that once more."""
    try:
        with closing(connect(source)) as connection:
            yield connection
    except pymysql.MySQLError as error:
        raise source_error(error, source, what, again) from error


def begun(
    source: Source, registration: Registration, schema: TableSchema, sleep: Callable[[float], None]
) -> tuple[EntryPosition, Progress]:
    """The place from which on the runs keep the table's changes, and the progress that notes it: the end of the binlog
    after the registration, or what a run that is gone has noted. Raises Broken where the definition is another one
    since."""
    registration.check()
    known = registration.snapshot.progress
    if known.low is None:
        with asked(source, schema.name) as connection:
            known = Progress(settled(connection, sleep), definition=schema.version)
        registration.note(known)
    if known.definition != schema.version:
        raise Broken("the table's definition changed while it was read", place=schema.name, hint=_AGAIN)
    assert known.low is not None
    return known.low, known


def ended(source: Source, schema: TableSchema, low: EntryPosition, cursor: EntryPosition | None) -> EntryPosition:
    """The end of the binlog behind the last chunk. Raises Broken where a DDL statement stands before it that no run
    has seen: those up to the client's cursor have been seen, and would have broken the snapshot."""
    with asked(source, schema.name) as connection:
        high = position(connection)
        seen = low if cursor is None or cursor < low else cursor
        statement = ddl_on(connection, schema.database, schema.table, seen, high)
    if statement is not None:
        raise Broken(f"the table was altered while it was read: {statement[:200]}", place=schema.name, hint=_AGAIN)
    check_definition(source, schema)
    return high


def check_definition(source: Source, schema: TableSchema, cause: SluiceError | None = None) -> None:
    """Raises Broken where the source's definition is another one by now."""
    with asked(source, schema.name) as connection:
        there = definition(connection, schema.database, schema.table)
    version = there and (there.with_dates_as_text() if any(c.as_text for c in schema.columns) else there).version
    if version != schema.version:
        what = "was altered" if there else "was dropped or renamed"
        raise Broken(f"the table {what} while it was read", place=schema.name, hint=_AGAIN) from cause


def estimated_rows(source: Source, schema: TableSchema) -> int | None:
    """About how many rows the table has, by the engine's statistics."""
    with asked(source, schema.name) as connection, connection.cursor() as cursor:
        cursor.execute(_ESTIMATE, (schema.database, schema.table))
        (rows,) = cursor.fetchone() or (None,)
        return None if rows is None else int(rows)
