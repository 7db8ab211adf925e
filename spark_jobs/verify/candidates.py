"""Which keys may differ, by the checksums of both sides: the sums of all buckets, then the rows of those that differ.

Source and lake are read at different times, so a key that others write meanwhile may be among them. Every key is that
differed all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.chunk import COMPARED, where
from spark_jobs.snapshot.chunks import plan_chunks
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.lake_rows import lake_rows
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.sums import Hashed, Sums, buckets_for, hashed, rows_question, sums_question

ROWS_PER_RANGE = 4_000_000
CONNECTIONS = 2
_MOST_ROWS = 5_000_000  # of buckets that differ: their keys are in memory


class TooMany(Exception):
    """So much differs that the keys cannot be told."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """How many rows there were on each side, and the keys whose rows may differ."""

    source_rows: int
    lake_rows: int
    keys: tuple[bytes, ...]


def candidates(source: Source, schema: TableSchema, table: DeltaTable, connections: int = CONNECTIONS) -> Candidates:
    """Raises TooMany, pymysql's errors, and Arrow's for a lake whose values are not of the source's types."""
    ranges, buckets = _ranges(source, schema), buckets_for(_count(table))
    with ThreadPoolExecutor(1, "lake-sums") as other:
        pending = other.submit(_lake_sums, schema, table, buckets)
        here = Sums.none(buckets)
        for rows in _answers(source, [sums_question(schema, buckets, one) for one in ranges], connections):
            here.add(*_columns(rows))
        there = pending.result()
    wanted, counts = here.differing(there), (int(here.rows.sum()), int(there.rows.sum()))
    if not len(wanted):
        return Candidates(*counts, ())
    if here.rows[wanted].sum() + there.rows[wanted].sum() > _MOST_ROWS:
        raise TooMany
    source_rows: set[tuple[bytes, int]] = set()
    listed = wanted.tolist()
    for rows in _answers(source, [rows_question(schema, buckets, listed, one) for one in ranges], connections):
        source_rows.update((key, int(value)) for key, value in rows)
    rows_of_lake = hashed(schema, buckets, lake_rows(table, schema))
    return Candidates(*counts, _differing(source_rows, rows_of_lake, wanted, schema.primary_key))


def _differing(
    source: set[tuple[bytes, int]], lake: Iterable[Hashed], wanted: Any, key: Sequence[str]
) -> tuple[bytes, ...]:
    """Takes each row of the lake from those of the source. A second copy of a row is one that differs."""
    found: set[bytes] = set()
    for part in lake:
        chosen = np.isin(part.buckets, wanted)
        keys = lake_text(part.rows.filter(pa.array(chosen)), key).to_pylist()
        for pair in zip(keys, part.hashes[chosen].tolist(), strict=True):
            if pair in source:
                source.remove(pair)
            else:
                found.add(pair[0])
    return tuple(sorted(found | {key for key, _ in source}))


def _lake_sums(schema: TableSchema, table: DeltaTable, buckets: int) -> Sums:
    sums = Sums.none(buckets)
    for part in hashed(schema, buckets, lake_rows(table, schema)):
        sums.add(part.buckets, np.ones(len(part.buckets), np.int64), part.hashes)
    return sums


def _count(table: DeltaTable) -> int:
    files = pa.table(table.get_add_actions(flatten=True))
    return int(pa.compute.sum(files["num_records"]).as_py() or 0)


def _ranges(source: Source, schema: TableSchema) -> list[str]:
    """Conditions that together have each row once."""
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


def _columns(rows: list[tuple[Any, ...]]) -> tuple[Any, Any, Any]:
    buckets, counts, hashes = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(buckets, np.int64), np.array(counts, np.int64), np.array(hashes, np.uint64)
