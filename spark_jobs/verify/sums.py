"""How many rows each bucket has, and the XOR of their hashes, on both sides. A row's bucket is by its key's hash.

Buckets and not ranges of keys: only the server knows the order of a collation, and both know a key's text. The server
reads ranges all the same, over several connections, each by a short statement at a time of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.sql import quote
from spark_jobs.verify.row_hash import Words, lake_hash, lake_key_hash, source_hash, source_key_hash
from spark_jobs.verify.row_text import source_text

ROWS_PER_BUCKET, _MOST = 512, 1 << 16


def buckets_for(rows: int) -> int:
    """How many buckets so many rows have: a power of two."""
    return min(_MOST, 1 << max(0, (rows // ROWS_PER_BUCKET).bit_length()))


@dataclass(slots=True)
class Sums:
    """`rows` and `hashes` of each bucket."""

    rows: npt.NDArray[np.int64]
    hashes: Words

    @classmethod
    def none(cls, buckets: int) -> Sums:
        return cls(np.zeros(buckets, np.int64), np.zeros(buckets, np.uint64))

    def add(self, buckets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], hashes: Words) -> None:
        """A bucket may be there several times."""
        np.add.at(self.rows, buckets, rows)
        np.bitwise_xor.at(self.hashes, buckets, hashes)

    def differing(self, other: Sums) -> npt.NDArray[np.int64]:
        """The buckets that are not the same."""
        return np.flatnonzero((self.rows != other.rows) | (self.hashes != other.hashes))


def sums_question(schema: TableSchema, buckets: int, where: str) -> str:
    """Asks the server for bucket, rows and hash of the rows in a range of keys."""
    return (
        f"SELECT {_bucket(schema, buckets)} AS sluice_bucket, COUNT(*), BIT_XOR({source_hash(schema)}) "  # noqa: S608
        f"FROM {_rows(schema, where)} GROUP BY sluice_bucket ORDER BY NULL"
    )


def rows_question(schema: TableSchema, buckets: int, wanted: Iterable[int], where: str) -> str:
    """Asks for the text of the key, and the hash, of each row of some buckets in a range of keys."""
    listed = ", ".join(map(str, wanted))
    chosen = f"{_bucket(schema, buckets)} IN ({listed})" + (f" AND {where}" if where else "")
    key = source_text(schema, schema.primary_key)
    return f"SELECT CAST({key} AS BINARY), {source_hash(schema)} FROM {_rows(schema, chosen)}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows of the lake, with the bucket and the hash of each."""

    rows: pa.RecordBatch
    buckets: npt.NDArray[np.int64]
    hashes: Words


def hashed(schema: TableSchema, buckets: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Hashed]:
    names = [column.name for column in schema.shown]
    for batch in batches:
        keys = lake_key_hash(batch, schema.primary_key)
        yield Hashed(batch, (keys & np.uint64(buckets - 1)).astype(np.int64), lake_hash(batch, names, keys))


def _bucket(schema: TableSchema, buckets: int) -> str:
    return f"{source_key_hash(schema)} & {buckets - 1}"


def _rows(schema: TableSchema, where: str) -> str:
    table = f"{quote(schema.database)}.{quote(schema.table)}"
    return f"{table} FORCE INDEX ({quote(schema.key_index)}) WHERE {where}" if where else table
