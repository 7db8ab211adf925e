"""Counts each bucket's rows, and sums their hashes, on both sides. A row's bucket is by its key's hash, or by its own
if it has no key.

Buckets, not ranges of keys: only the server knows the order of a collation, and both know a key's text. The server
reads ranges all the same, over several connections, each by a short statement at its own time. Sums, not XOR: two
equal rows would cancel out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.sql import quote
from spark_jobs.verify.row_hash import Words, lake_hash, source_hash, source_key_hash
from spark_jobs.verify.row_text import source_text

ROWS_PER_BUCKET, _MOST = 512, 1 << 16
_WORD = (1 << 64) - 1

Buckets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """The compared columns, and the key's columns among them."""

    key: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, schema: TableSchema) -> Columns:
        return cls(schema.primary_key, tuple(column.name for column in schema.shown))


def buckets_for(rows: int) -> int:
    """Returns the number of buckets for so many rows: a power of two."""
    return min(_MOST, 1 << max(0, (rows // ROWS_PER_BUCKET).bit_length()))


@dataclass(frozen=True, slots=True)
class Sums:
    """`rows` and `hashes` of each bucket. A hash is a number modulo 2**64."""

    rows: Buckets
    hashes: Words

    @classmethod
    def of(cls, buckets: int, parts: Iterable[tuple[Buckets, Buckets, Words]]) -> Sums:
        """The sums of parts: buckets, each as often as it comes, with rows and hash."""
        sums = cls(np.zeros(buckets, np.int64), np.zeros(buckets, np.uint64))
        for at, rows, hashes in parts:
            np.add.at(sums.rows, at, rows)
            np.add.at(sums.hashes, at, hashes)
        return sums

    @property
    def total(self) -> int:
        """All rows."""
        return int(self.rows.sum())

    def differing(self, other: Sums) -> Buckets:
        """Returns the buckets that differ."""
        return np.flatnonzero((self.rows != other.rows) | (self.hashes != other.hashes))


def source_sums(buckets: int, answers: Iterable[list[tuple[Any, ...]]]) -> Sums:
    """Of the server's answers to `sums_question`."""
    return Sums.of(buckets, map(_columns, answers))


def lake_sums(columns: Columns, buckets: int, batches: Iterable[pa.RecordBatch]) -> Sums:
    """Of rows of the lake."""
    parts = hashed(columns, buckets, batches)
    return Sums.of(buckets, ((one.buckets, np.ones(len(one.buckets), np.int64), one.hashes) for one in parts))


def sums_question(schema: TableSchema, buckets: int, where: str) -> str:
    """Asks the server for bucket, rows and hash of the rows in a range of keys."""
    return (
        f"SELECT {_bucket(schema, buckets)} AS sluice_bucket, COUNT(*), SUM({source_hash(schema)}) "  # noqa: S608
        f"FROM {_rows(schema, where)} GROUP BY sluice_bucket ORDER BY NULL"
    )


def rows_question(schema: TableSchema, buckets: int, wanted: Sequence[int], where: str) -> str:
    """Asks for the text of the key, and the hash, of each row of some buckets in a range of keys."""
    chosen = in_buckets(schema, buckets, wanted) + (f" AND {where}" if where else "")
    key = source_text(schema, schema.primary_key)
    return f"SELECT CAST({key} AS BINARY), {source_hash(schema)} FROM {_rows(schema, chosen)}"  # noqa: S608


def in_buckets(schema: TableSchema, buckets: int, wanted: Sequence[int]) -> str:
    """The condition for the rows of some buckets."""
    return f"{_bucket(schema, buckets)} IN ({', '.join(map(str, wanted))})" if len(wanted) < buckets else "TRUE"


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows of the lake, with the bucket and the hash of each."""

    rows: pa.RecordBatch
    buckets: Buckets
    hashes: Words

    def within(self, wanted: Buckets) -> Hashed:
        """Returns the rows of some buckets."""
        chosen = np.isin(self.buckets, wanted)
        return Hashed(self.rows.filter(pa.array(chosen)), self.buckets[chosen], self.hashes[chosen])


def hashed(columns: Columns, buckets: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Hashed]:
    """Yields the rows of the batches with the bucket and the hash that the server computes."""
    for batch in batches:
        keys, hashes = lake_hash(batch, columns.key, columns.names)
        yield Hashed(batch, (keys & np.uint64(buckets - 1)).astype(np.int64), hashes)


def _columns(rows: list[tuple[Any, ...]]) -> tuple[Buckets, Buckets, Words]:
    buckets, counts, sums = zip(*rows, strict=True) if rows else ((), (), ())
    hashes = [int(one) & _WORD for one in sums]
    return np.array(buckets, np.int64), np.array(counts, np.int64), np.array(hashes, np.uint64)


def _bucket(schema: TableSchema, buckets: int) -> str:
    return f"{source_key_hash(schema)} & {buckets - 1}"


def _rows(schema: TableSchema, where: str) -> str:
    table = f"{quote(schema.database)}.{quote(schema.table)}"
    forced = f" FORCE INDEX ({quote(schema.key_index)})" if schema.primary_key else ""
    return f"{table}{forced} WHERE {where}" if where else table
