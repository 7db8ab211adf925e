"""Finds keys that may differ, by the checksums of both sides: the sums of all buckets, then the rows of the buckets
that differ.

Source and lake are read at different times, so a key that others write meanwhile may be among them. Every key that
differed all the time is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql
from deltalake import DeltaTable

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.chunk import COMPARED, where
from spark_jobs.snapshot.chunks import plan_chunks
from spark_jobs.snapshot.reading import read_chunks, read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.counts import LakeSide
from spark_jobs.verify.keys import has_null
from spark_jobs.verify.lake_rows import rows_in
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.sums import (
    Buckets,
    Columns,
    Hashed,
    Sums,
    buckets_for,
    hashed,
    in_buckets,
    lake_sums,
    rows_question,
    source_sums,
    sums_question,
)

_ESTIMATE = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
ROWS_PER_RANGE = 4_000_000
CONNECTIONS = 2
_MOST_ROWS = 2_000_000  # of buckets that differ: their keys are in memory


@dataclass(frozen=True, slots=True)
class Candidates:
    """The number of rows on each side, and the keys whose rows may differ. None: the keys of the buckets that differ
    are too many, or rows have no key."""

    source_rows: int
    lake_rows: int
    keys: tuple[bytes, ...] | None


def candidates(
    source: Source, schema: TableSchema, table: DeltaTable, zero_dates: ZeroDates, connections: int = CONNECTIONS
) -> Candidates:
    """Returns the candidates. Raises pymysql's errors, and what `read_rows` raises."""
    if any(column.changes_values for column in schema.columns if column.name in schema.primary_key):
        return Candidates(0, 0, None)  # no condition finds the row of such a key
    ranges = _ranges(source, schema)
    changed = changes_values(schema)
    with closing(connect(source)) as connection:
        buckets = buckets_for(max(rows_in(table), rows_about(connection, schema)))
    there = LakeSide(table, arrow_fields(schema), schema.primary_key)
    with ThreadPoolExecutor(1, "lake-sums") as other:
        pending = other.submit(there.sums, buckets)
        if changed:
            rows = read_chunks(source, schema, ranges, zero_dates)
            here = lake_sums(Columns.of(schema), buckets, rows)
        else:
            questions = [sums_question(schema, buckets, one) for one in ranges]
            here = source_sums(buckets, _answers(source, questions, connections))
        theirs = pending.result()
    wanted, counts = here.differing(theirs), (here.total, theirs.total)
    if not len(wanted):
        return Candidates(*counts, ())
    if not schema.primary_key or here.rows[wanted].sum() + theirs.rows[wanted].sum() > _MOST_ROWS:
        return Candidates(*counts, None)
    source_rows: set[tuple[bytes, int]] = set()
    listed = wanted.tolist()
    if changed:
        for part in hashed(Columns.of(schema), buckets, read_chunks(source, schema, ranges, zero_dates)):
            source_rows.update(_keyed(part.within(wanted), schema.primary_key))
    else:
        for answer in _answers(source, [rows_question(schema, buckets, listed, one) for one in ranges], connections):
            source_rows.update((key, int(value)) for key, value in answer)
    keys = _differing(source_rows, there.hashed(buckets, wanted), schema.primary_key)
    return Candidates(*counts, None if any(has_null(schema, key) for key in keys) else keys)


def rows_about(connection: pymysql.Connection[Any], schema: TableSchema) -> int:
    """Returns the server's estimate of the source table's rows."""
    with connection.cursor() as cursor:
        cursor.execute(_ESTIMATE, (schema.database, schema.table))
        (rows,) = cursor.fetchone() or (0,)
    return int(rows or 0)


def _differing(source: set[tuple[bytes, int]], lake: Iterable[Hashed], key: Sequence[str]) -> tuple[bytes, ...]:
    """Returns the keys that remain when the lake's rows are removed from the source's. A second copy of a row
    differs."""
    found: set[bytes] = set()
    for part in lake:
        for pair in _keyed(part, key):
            if pair in source:
                source.remove(pair)
            else:
                found.add(pair[0])
    return tuple(sorted(found | {key for key, _ in source}))


def _keyed(part: Hashed, key: Sequence[str]) -> Iterator[tuple[bytes, int]]:
    """The text of the key, and the hash, of each row."""
    return zip(lake_text(part.rows, key).to_pylist(), part.hashes.tolist(), strict=True)


def changes_values(schema: TableSchema) -> bool:
    """Whether the server cannot compute sums: rules change values, or leave rows out, where rows are read. No statement
    has a salt or a condition."""
    return bool(schema.where) or any(column.changes_values for column in schema.shown)


def _ranges(source: Source, schema: TableSchema) -> list[str]:
    """Conditions that together have each row once."""
    if not schema.primary_key:
        return [""]
    with closing(connect(source)) as connection:
        return [where(schema, chunk) for chunk in plan_chunks(connection, schema, ROWS_PER_RANGE)]


def _answers(source: Source, questions: list[str], connections: int) -> Iterator[list[tuple[Any, ...]]]:
    """Each question's rows, over so many connections."""

    def asked(question: str) -> list[tuple[Any, ...]]:
        with closing(connect(source)) as connection, connection.cursor() as cursor:
            cursor.execute(COMPARED)
            cursor.execute(question)
            return list(cursor.fetchall())

    ask: Callable[[str], list[tuple[Any, ...]]] = asked
    with ThreadPoolExecutor(connections, "source-sums") as pool:
        yield from pool.map(ask, questions)


@dataclass(frozen=True, slots=True)
class SourceSide:
    """The rows of a table over a connection that is in a snapshot."""

    connection: pymysql.Connection[Any]
    schema: TableSchema
    zero_dates: ZeroDates

    def sums(self, buckets: int) -> Sums:
        if changes_values(self.schema):
            return lake_sums(Columns.of(self.schema), buckets, self._all())
        with self.connection.cursor() as cursor:
            cursor.execute(COMPARED)
            cursor.execute(sums_question(self.schema, buckets, ""))
            return source_sums(buckets, [list(cursor.fetchall())])

    def rows(self, buckets: int, wanted: Buckets) -> Iterator[pa.RecordBatch]:
        if changes_values(self.schema):
            return (part.within(wanted).rows for part in hashed(Columns.of(self.schema), buckets, self._all()))
        chosen = in_buckets(self.schema, buckets, wanted.tolist())
        return read_rows(self.connection, self.schema, self.zero_dates, chosen)

    def _all(self) -> Iterator[pa.RecordBatch]:
        return read_rows(self.connection, self.schema, self.zero_dates)
