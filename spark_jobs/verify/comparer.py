"""`TableComparer`: compares tables by checksums while others write and drain, each at its own time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pymysql
from deltalake import DeltaTable

from cdc_core.client.connector import Connector
from cdc_core.errors import LakeError, SourceError
from cdc_core.position import EntryPosition
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import definition
from cdc_core.schema.names import full_name, split_name
from cdc_core.schema.table import TableSchema
from spark_jobs.following.pending import Follows, place_of
from spark_jobs.lake.corrections import Corrections
from spark_jobs.lake.remedy import copy_hint, repair_hint
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, spark_type
from spark_jobs.landing.parked import Parking
from spark_jobs.snapshot.binlog import ddl_on, position, reaches
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.foreign_keys import ancestors, read_foreign_keys
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.snapshot.sql import quote
from spark_jobs.verify.audit import Settle, audit, is_whole, leave, shared
from spark_jobs.verify.definition import LakeDefinition, definition_differences
from spark_jobs.verify.on_purpose import on_purpose
from spark_jobs.verify.standing import ComparedTable
from spark_jobs.verify.verified import Comparison, Verified, or_why_not

_LOGGED_SECONDS = 0.2  # in which the binlog has a statement; MySQL 5.7 drops a table a moment before


@dataclass(frozen=True, slots=True)
class TableComparer:
    """Compares tables of one client. `timeout_seconds` for each of them. `settle` is called with a table, and its
    result with the differences, while the lake stands still."""

    connector: Connector
    source: Source
    lake: Lake
    timeout_seconds: float = 60.0
    settle: Callable[[ComparedTable], Settle] = lambda _: leave
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def await_lake(self, in_time: Callable[[], bool] | None = None) -> EntryPosition:
        """Waits until the lake has all that the source has written by now, and returns that position. Raises LakeError
        if it takes too long, SourceUnavailable if the source goes away meanwhile."""
        in_time = in_time or self._deadline()
        with asked(self.source, "where it stands", "compare again") as connection:
            connection.autocommit(True)
            end = position(connection)
            while True:
                cursor = self.connector.client_status().cursor
                if cursor is not None and reaches(connection, cursor, end):
                    return end
                if not in_time():
                    raise self._late(end, cursor)
                self.sleep(0.5)

    def table(self, database: str, table: str) -> Verified:
        """Returns the comparison of a table of the source, with the remedy if it differs.

        Raises LakeError when the lake does not reach the source's present end in time.
        """
        name, in_time = full_name(database, table), self._deadline()
        low = self.await_lake(in_time)
        return self._with_remedy(or_why_not(name, low, lambda: self._settled(database, table, low, in_time)))

    def _settled(self, database: str, table: str, low: EntryPosition, in_time: Callable[[], bool]) -> Verified:
        """Returns the comparison made while no statement on the table ran. If a statement ran since the lake had all up
        to `low`, a difference or an error means nothing, and the table is compared again."""
        name, repaired = full_name(database, table), 0
        while (found := or_why_not(name, low, partial(self._compared, database, table, low, in_time))).differences:
            if not self._is_redefined(database, table, low):
                break
            if not in_time():
                hint = "Verify again when no statement changes it."
                raise LakeError("the table's definition changed while it was compared", place=name, hint=hint)
            repaired += found.repaired
            low = self.await_lake(in_time)
        return replace(found, repaired=found.repaired + repaired)

    def _is_redefined(self, database: str, table: str, low: EntryPosition) -> bool:
        """Whether a statement on the table has run since the source's binlog ended at `low`."""
        self.sleep(_LOGGED_SECONDS)
        with closing(connect(self.source)) as connection:
            connection.autocommit(True)
            return ddl_on(connection, database, table, low, position(connection)) is not None

    def dropped_unseen(self, database: str, table: str) -> Verified | None:
        """Returns the error of a table that the lake has and the source lacks, if the lake has followed every statement
        up to now: it may have been dropped or renamed after the tables of the lake were listed. Raises LakeError."""
        name, in_time = full_name(database, table), self._deadline()
        while True:
            with closing(connect(self.source)) as connection:
                if _exists(connection, database, table):
                    return None
            self.sleep(_LOGGED_SECONDS)
            at = self.await_lake(in_time)
            if not self.lake.is_live(name):
                return None
            if not self._is_redefined(database, table, at):
                break
        error = "the lake has the table, and the source does not: its DROP was not captured"
        return Verified(name, None, at, error=error)

    def _deadline(self) -> Callable[[], bool]:
        end = self.clock() + self.timeout_seconds
        return lambda: self.clock() < end

    def _late(self, end: EntryPosition, cursor: EntryPosition | None) -> LakeError:
        hint = "Is the service running, and does Dagster drain it? Give more time, or stop the writes at the source."
        place = f"{self.connector.destination}/{self.connector.client_id}"
        return LakeError(f"the lake has not reached {end}: acked to {cursor}", place=place, hint=hint)

    def _state(self, database: str, table: str) -> TableState | None:
        client = self.connector
        app = app_id(client.destination, client.client_id, full_name(database, table), client.client_status().epoch)
        return self.lake.state(self.lake.path(database, table), app)

    def _compared(self, database: str, table: str, low: EntryPosition, in_time: Callable[[], bool]) -> Verified:
        follows = Follows(self.lake, self.connector.destination, self.connector.client_id)
        await_merged(follows, full_name(database, table), in_time, self.sleep)
        with closing(connect(self.source)) as connection:
            connection.autocommit(True)
            found = definition(connection, database, table)
            if found is None or not found.columns:
                hint = "Name tables as database.table, and grant SELECT on them."
                message = "the table does not exist, or may not be read"
                raise SourceError(message, place=full_name(database, table), hint=hint)
            found = self.source.compared(found)
            state = self._state(database, table)
            if state is None or _waits(found, state):
                rows = _rows(connection, found)
                at = self.await_lake(in_time) if rows else low
                state = self._state(database, table)  # it may have come by now
                if state is None or _waits(found, state):
                    return Verified(found.name, Comparison(rows, 0, rows, 0, 0), at)
        if (schema := shared(found, state)) is None:
            hint = "Reload the table from the source: sluice copy."
            raise LakeError("source and lake share no column", place=found.name, hint=hint)
        return self._audited(found, schema, state, low, in_time)

    def _audited(
        self,
        found: TableSchema,
        schema: TableSchema,
        state: TableState,
        low: EntryPosition,
        in_time: Callable[[], bool],
    ) -> Verified:
        there = self.lake.open(self.lake.path(found.database, found.table))
        as_text = {column.name for column in schema.columns if column.as_text}
        zero_dates: ZeroDates = "string" if as_text else "null"
        corrections = Corrections(self.lake, self.connector.destination, self.connector.client_id)
        place = ComparedTable(
            self.connector, self.source, self.lake, schema, zero_dates, lambda: self._parents(schema),
            lambda: on_purpose(corrections, schema),
        )  # fmt: skip
        whole = replace(found, columns=tuple(replace(c, as_text=c.name in as_text) for c in found.columns))
        is_right = is_whole(whole, state)
        settle = self.settle(place) if is_right else leave
        audited = audit(place, there, settle=settle, in_time=in_time, sleep=self.sleep)
        differing = () if state.dropped else _definitions(whole, there, state)  # its first row brings the definition
        repairable = audited.by_key and is_right and not differing
        at, repaired = audited.place or low, audited.settled
        return Verified(
            schema.name, audited.comparison, at, differing, repaired=repaired, repairable=repairable,
            on_purpose=audited.on_purpose,
        )  # fmt: skip

    def _with_remedy(self, found: Verified) -> Verified:
        """Returns the result with a remedy: repair for rows that were found by their keys, reloading for other
        tables."""
        if found.comparison is None or not found.differences:
            return replace(found, repairable=False)
        hint = repair_hint if found.repairable else copy_hint
        return replace(found, remedy=hint(self.connector.destination, found.table))

    def _parents(self, schema: TableSchema) -> frozenset[str]:
        with closing(connect(self.source)) as connection:
            keys = read_foreign_keys(connection, lambda: [split_name(one.name) for one in self.connector.tables()])
        return frozenset(full_name(*one) for one in ancestors(keys, (schema.database, schema.table)))


def compared(
    comparer: TableComparer, tables: Iterable[tuple[str, str]], besides: Iterable[tuple[str, str]] = ()
) -> Iterator[Verified]:
    """Compares several tables. `besides` are tables that the lake had. A table that it still has and the source lacks
    is reported, and a table for which that is unknown.

    Raises LakeError when the lake does not reach the source's present end in time, for one of `tables`.
    """
    for database, table in tables:
        yield comparer.table(database, table)
    for database, table in besides:
        unseen = partial(comparer.dropped_unseen, database, table)
        if found := or_why_not(full_name(database, table), place_of(0), unseen):
            yield found


def await_merged(follows: Follows, table: str, in_time: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """Waits until the table has its whole log; returns at once for a table without a log.

    Raises LakeError if that takes too long, with the reason of its last failure; and for a table that has a log alone.
    """
    while (pending := follows.pending(table)) is not None:
        if not in_time():
            raise _unmerged(follows, table, pending.rows)
        sleep(0.5)
    landed = follows.log(table) is not None
    if landed and follows.lake.state(follows.path(table), "") is None:
        hint = "Set its mode to merge or land_first to have a table that can be compared."
        raise LakeError("only its change log has its changes", place=table, hint=hint)


def _unmerged(follows: Follows, table: str, rows: int) -> LakeError:
    parked = Parking(follows.lake, follows.destination, follows.client_id).tables().get(table)
    message = f"{rows} rows of its change log are not merged"
    if parked is None:
        return LakeError(message, place=table, hint="Does Dagster run the job that merges? Give more time (--timeout).")
    return LakeError(f"{message}, because {parked.reason}", place=table, hint=parked.hint)


def _waits(schema: TableSchema, state: TableState) -> bool:
    """Whether the lake's table is empty, and its first row brings its columns."""
    return state.dropped and shared(schema, state) is None


def _definitions(schema: TableSchema, table: DeltaTable, state: TableState) -> tuple[str, ...]:
    """Returns a sentence for each difference between the definitions of a source table and the lake's."""
    comments = {column.name: column.comment for column in schema.columns}
    columns = [LakeColumn(one.name, spark_type(one.type), comments[one.name]) for one in arrow_fields(schema)]
    refusing = tuple(field.name for field in table.schema().fields if not field.nullable)
    there = LakeDefinition(state.columns, table.metadata().description or "", refusing)
    return definition_differences(columns, schema.comment, there)


def _exists(connection: pymysql.Connection[Any], database: str, table: str) -> bool:
    """Whether there is a table of this name, of any kind."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", (database, table)
        )
        return cursor.fetchone() is not None


def _rows(connection: pymysql.Connection[Any], schema: TableSchema) -> int:
    """The number of the table's rows; of those that meet its condition."""
    if schema.where:
        return sum(rows.num_rows for rows in read_rows(connection, schema, "null"))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {quote(schema.database)}.{quote(schema.table)}")  # noqa: S608
        (rows,) = cursor.fetchone() or (0,)
    return int(rows)
