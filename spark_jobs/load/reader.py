"""Reads the rows of a table at the source: the base of a load.

With a key they are read in chunks, each at its own time; after a killed run the next one continues after the last
group. Without a key they are read in one view, whose place in the binlog is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from cdc_core.client.connector import Connector
from cdc_core.contract.snapshot import Progress
from cdc_core.errors import ConfigError, DecodeError, SchemaError, SluiceError, SourceError
from cdc_core.position import EntryPosition
from cdc_core.schema.column_rule import Cast, ZeroDates
from cdc_core.schema.information_schema import definition
from cdc_core.schema.sql_text import without_values
from cdc_core.schema.table import TableSchema
from spark_jobs.load.executors import is_cluster, on_executors
from spark_jobs.load.groups import Readers, Reading, in_threads, stage_groups
from spark_jobs.load.registration import Registration
from spark_jobs.load.result import Broken, NoSuchTable
from spark_jobs.load.staging import Groups, StagedRows, Staging
from spark_jobs.load.view import opened, stage_view
from spark_jobs.session import Sessions
from spark_jobs.snapshot.binlog import ddl_on, position
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.place import SnapshotPlace, settled
from spark_jobs.snapshot.replica import await_place, executed
from spark_jobs.snapshot.source import Source

_AGAIN = "Start the snapshot again when the statements that change the table have ended."
_ESTIMATE = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_READERS = ("", "driver", "executors")
_REPLICA_SECONDS = 600.0


def begun(
    source: Source, registration: Registration, schema: TableSchema, sleep: Callable[[float], None]
) -> tuple[EntryPosition, Progress]:
    """Returns the place from which on the runs keep the table's changes, and the progress that notes it: the end of the
    binlog after the registration, or the place that an earlier run has noted. Raises Broken if the definition changed
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
    """Returns the end of the binlog after the last chunk. Raises Broken if no run has seen a DDL statement before it.
    Statements up to the client's cursor have been seen, and would have broken the snapshot."""
    with asked(source, schema.name) as connection:
        high = position(connection)
        seen = low if cursor is None or cursor < low else cursor
        statement = ddl_on(connection, schema.database, schema.table, seen, high)
    if statement is not None:
        raise Broken(
            f"the table may have been altered while it was read: {without_values(statement, None)[:200]}",
            place=schema.name,
            hint=_AGAIN,
        )
    check_definition(source, schema)
    return high


def check_definition(source: Source, schema: TableSchema, cause: SluiceError | None = None) -> None:
    """Raises Broken if the source's definition has changed."""
    with asked(source, schema.name) as connection:
        there = definition(connection, schema.database, schema.table)
    as_text = any(column.as_text and column.cast is not Cast.DATETIME_STRING for column in schema.columns)
    if there is None or source.view(there, "string" if as_text else "fail").version != schema.version:
        what = "was altered" if there else "was dropped or renamed"
        raise Broken(f"the table {what} while it was read", place=schema.name, hint=_AGAIN) from cause


def estimated_rows(source: Source, schema: TableSchema) -> int | None:
    """Returns the estimated number of the table's rows, by the engine's statistics."""
    with asked(source, schema.name) as connection, connection.cursor() as cursor:
        cursor.execute(_ESTIMATE, (schema.database, schema.table))
        (rows,) = cursor.fetchone() or (None,)
        return None if rows is None else int(rows)


@dataclass(frozen=True, slots=True)
class Read:
    """The progress of a table. `of_rows` is the server's estimate of all rows, or None; `before`: the number of rows
    that an earlier run had staged."""

    table: str
    rows: int
    chunks: int
    of_rows: int | None = None
    before: int = 0


@dataclass(frozen=True, slots=True)
class Manner:
    """How tables are read. `replica`: host and port to read from instead of the source, by the same account. `read_on`:
    what reads tables with a key; "" means the executors of a cluster, and this process with a local Spark."""

    rows_per_chunk: int = 250_000
    limits: Limits = field(default_factory=Limits)
    replica: tuple[str, int] | None = None
    read_on: str = ""

    def __post_init__(self) -> None:
        if self.read_on not in _READERS:
            hint = "Name driver or executors, or leave it out: the executors of a cluster, else the driver."
            raise ConfigError(f"read_on must be driver or executors, not {self.read_on!r}", place="read_on", hint=hint)


def server_of(manner: Manner, source: Source, low: EntryPosition) -> Source:
    """Returns the server to read: the source, or a replica once it has all changes up to `low`."""
    if manner.replica is None:
        return source
    host, port = manner.replica
    replica = replace(source, host=host, port=port, server_id=None)
    with asked(source, "its GTIDs") as connection:
        gtids = executed(connection)
    return await_place(replica, low, gtids, _REPLICA_SECONDS)


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads one table of the source; its registration records the progress. `source` is the server that the service
    reads; `report` is called with the table's progress."""

    connector: Connector
    sessions: Sessions
    source: Source
    schema: TableSchema
    staging: Staging
    registration: Registration
    manner: Manner
    zero_dates: ZeroDates
    report: Callable[[Read], None]
    sleep: Callable[[float], None]

    def staged(self) -> StagedRows:
        """Stages all rows, and returns the staging table.

        Raises SourceError and SourceUnavailable, DecodeError for a refused value, LakeError if they cannot be staged;
        Broken for a table that was altered meanwhile, and what `Registration.check` raises.
        """
        return self._in_chunks() if self.schema.primary_key else self._in_one_view()

    def _in_chunks(self) -> StagedRows:
        source, schema, staging, manner = self.source, self.schema, self.staging, self.manner
        low, progress = begun(source, self.registration, schema, self.sleep)
        reading = Reading(server_of(manner, source, low), schema, self.zero_dates, manner.limits, manner.rows_per_chunk)
        of_rows, before = estimated_rows(source, schema), staging.keep_groups().rows
        of_groups = None if of_rows is None else of_rows // (reading.chunks_per_group * reading.rows_per_chunk) + 1

        def note(staged: Groups) -> None:
            check_definition(source, schema)
            self.registration.note(replace(progress, groups=staged.count, of_groups=of_groups))
            self.report(Read(schema.name, staged.rows, staged.chunks, of_rows, before))

        try:
            staged = stage_groups(reading, staging, note, self._readers())
        except (SourceError, SchemaError, DecodeError) as error:
            check_definition(source, schema, error)
            raise
        high = ended(source, schema, low, self.connector.client_status().cursor)
        self.registration.note(replace(progress, high=high, groups=staged.count, of_groups=staged.count))
        return StagedRows(staging.path, schema, SnapshotPlace(low, high), staged.rows)

    def _readers(self) -> Readers:
        cluster = self.manner.read_on == "executors" or (not self.manner.read_on and is_cluster(self.sessions))
        return partial(on_executors, self.sessions) if cluster else in_threads

    def _in_one_view(self) -> StagedRows:
        """Reads the table at the source itself, because the place is in its binlog. A view ends with its connection:
        nothing is resumed."""
        schema, as_text = self.schema, self.zero_dates == "string"
        self.staging.clear()
        with opened(self.source, schema.database, schema.table, as_text=as_text, sleep=self.sleep) as there:
            if isinstance(there, NoSuchTable) or there.schema.version != schema.version or there.schema.primary_key:
                raise Broken("its definition changed", place=schema.name, hint="Start the snapshot again.")
            self.registration.note(Progress(there.place.low, there.place.high, schema.version))
            progress = lambda rows: self.report(Read(schema.name, rows, 1))  # noqa: E731
            return stage_view(self.staging, there, self.zero_dates, progress, self.manner.limits)
