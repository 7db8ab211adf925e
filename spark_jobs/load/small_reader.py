"""Reads and stages small tables, one after the other over each of some connections.

A table with a key is read by one statement, without a lock and at its own time, as a chunk is. Tables without a key are
read several to a view, which begins after a settled place: the view is exactly at that place for each table that was
not written since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pymysql

from cdc_core.errors import SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import definitions
from cdc_core.schema.table import TableSchema
from spark_jobs.load.staging import StagedRows, Staging
from spark_jobs.load.view import touch
from spark_jobs.snapshot.binlog import between, position
from spark_jobs.snapshot.limits import Limits, RateLimit
from spark_jobs.snapshot.place import SnapshotPlace, view_behind
from spark_jobs.snapshot.reading import read_rows, reading_connection
from spark_jobs.snapshot.source import Source, connect

MOST_ROWS = 50_000  # of a small table, by the server's estimate,
MOST_BYTES = 8 << 20  # and so many bytes
_TIMES = 4  # a table is not small if it turns out so many times as large
_Thing = TypeVar("_Thing")
_IN_A_VIEW = 20  # tables: none of them can be altered while the view stands


class NotSmall(Exception):
    """A table has far more rows or bytes than the server's estimate said."""


class NotExact(Exception):
    """A table without a key was written, altered or dropped between the place and its view."""


@dataclass(slots=True)
class Tally:
    """Counts the rows that were read so far. Safe to use from several threads."""

    rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: int) -> None:
        with self._lock:
            self.rows += rows


@dataclass(slots=True)
class Small:
    """A table to be read, from `low` on if that is noted, and the staging of its rows. `rows`: their number once they
    are staged."""

    schema: TableSchema
    staging: Staging
    low: EntryPosition
    rows: StagedRows | None = None

    @property
    def name(self) -> str:
        return self.schema.name

    def end(self, high: EntryPosition) -> None:
        """Notes that no row of the table is after `high`. A table without a key is exactly at its place."""
        if self.rows and self.schema.primary_key:
            self.rows = replace(self.rows, place=SnapshotPlace(self.rows.place.low, high))


@dataclass(frozen=True, slots=True)
class SmallReader:
    """`server` is the server to read: the source, or a replica. `failed` is called with each table that cannot be read
    so, from any thread; `over` says whether to end early."""

    source: Source
    server: Source
    zero_dates: ZeroDates
    limits: Limits
    tally: Tally
    failed: Callable[[Small, Exception], None]
    over: Callable[[], bool]

    def read(self, tables: Sequence[Small]) -> None:
        """Stages all rows of the tables that can be read."""
        keyed = _Shared([table for table in tables if table.schema.primary_key])
        others = [table for table in tables if not table.schema.primary_key]
        views = _Shared([others[low : low + _IN_A_VIEW] for low in range(0, len(others), _IN_A_VIEW)])
        count = self.limits.shares(max(1, len(tables)))

        def work() -> None:
            alone = self.limits.share(count)
            pace = RateLimit(alone.rows_per_second)
            for view in views:
                self._in_view(view, alone, pace)
            while (first := next(keyed, None)) is not None:
                if not self._one_by_one(chain([first], keyed), alone, pace):
                    return

        with ThreadPoolExecutor(count, thread_name_prefix="small") as pool:
            for done in [pool.submit(work) for _ in range(count)]:
                done.result()

    def _one_by_one(self, tables: Iterator[Small], limits: Limits, pace: RateLimit) -> bool:
        """Reads tables over one connection until one fails: the connection is of no use after that. Returns whether
        another connection may do better."""
        table = next(tables)
        try:
            with reading_connection(self.server) as connection:
                self._stage(connection, table, table.low, limits, pace)
                while not self.over() and (following := next(tables, None)) is not None:
                    table = following
                    self._stage(connection, table, table.low, limits, pace)
        except Exception as error:
            self.failed(table, error)
            return not isinstance(error, SourceUnavailable)
        return not self.over()

    def _in_view(self, tables: Sequence[Small], limits: Limits, pace: RateLimit) -> None:
        left = list(tables)
        try:
            with closing(connect(self.source)) as connection:
                place, there = self._viewed(connection, tables)
                for table in tables:
                    if table.name not in there:
                        self.failed(table, NotExact(table.name))
                    else:
                        self._stage(connection, table, place.low, limits, pace)
                    left.remove(table)
        except Exception as error:
            for table in left:
                self.failed(table, error)

    def _stage(
        self, connection: pymysql.Connection[Any], table: Small, place: EntryPosition, limits: Limits, pace: RateLimit
    ) -> None:
        schema = table.schema

        def counted() -> Iterator[pa.RecordBatch]:
            rows = size = 0
            for batch in read_rows(connection, schema, self.zero_dates, limits=limits, pace=pace):
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows > _TIMES * MOST_ROWS or size > _TIMES * MOST_BYTES:
                    raise NotSmall(schema.name)
                self.tally.add(batch.num_rows)
                yield batch

        staged = table.staging.write(counted(), schema)
        table.rows = StagedRows(table.staging.path, schema, SnapshotPlace(place, place), staged)

    def _viewed(
        self, connection: pymysql.Connection[Any], tables: Sequence[Small]
    ) -> tuple[SnapshotPlace, frozenset[str]]:
        """Begins a view, and returns its exact place for the tables that have one; their definitions stay as they are
        until it ends."""
        place = view_behind(connection, tables[0].low)
        there = [one for one in tables if touch(connection, one.schema.database, one.schema.table)]
        found = definitions(connection, [(one.schema.database, one.schema.table) for one in there])
        since = between(connection, place.low, position(connection))
        good = set()
        for one in there:
            name = one.schema.database, one.schema.table
            now = self.source.view(found[name], self.zero_dates) if name in found else None
            same = now is not None and now.version == one.schema.version
            still = since.ddl_on(*name) is None and (place.exact or not since.changes(*name))
            if same and still:
                good.add(one.name)
        return place, frozenset(good)


class _Shared(Generic[_Thing]):
    """A queue from which several threads take, each thing once."""

    def __init__(self, things: Sequence[_Thing]) -> None:
        self._things, self._lock = iter(things), threading.Lock()

    def __iter__(self) -> Iterator[_Thing]:
        return self

    def __next__(self) -> _Thing:
        with self._lock:
            return next(self._things)
