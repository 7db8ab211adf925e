"""Counts the differences between two fixed sides: the sums of all buckets, then the rows of the buckets that differ, by
a hash of their text.

Rows that have no key, or a NULL in it, are counted as copies: a different row is one missing and one extra. A row whose
text differs between the sides may lie in different buckets. Then both buckets differ, so the row is met on both sides,
and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from spark_jobs.verify.lake_rows import lake_rows
from spark_jobs.verify.row_hash import Words
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.sums import Buckets, Columns, Hashed, Sums, hashed, lake_sums
from spark_jobs.verify.verified import Comparison

_ROWS_AT_ONCE = 2_000_000  # of buckets that differ
_ROWS_FOLDED = 500_000  # hashes of batches that wait to be added up
_MOST = 10_000_000  # rows that differ: their hashes are in memory

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Copies:
    """How many times rows are there, by the hashes of their keys and of their texts."""

    keys: Words
    rows: Words
    times: Times

    @classmethod
    def of(cls, batch: pa.RecordBatch, columns: Columns, times: Times | int = 1) -> Copies:
        """Of the rows of a batch, each so many times."""
        rows = _digests(lake_text(batch, columns.names))
        keys = rows
        if columns.key:
            null = np.zeros(batch.num_rows, np.bool_)
            for name in columns.key:
                null |= np.asarray(batch.column(name).is_null())
            keys = np.where(null, rows, _digests(lake_text(batch, columns.key)))
        return cls(keys, rows, np.broadcast_to(np.int64(times), batch.num_rows).astype(np.int64))

    @classmethod
    def all(cls, parts: Iterable[Copies]) -> Copies:
        """Returns the copies of all parts, without rows whose times add up to 0."""
        listed = list(parts) or [cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))]
        keys, rows = (np.concatenate([getattr(one, name) for one in listed]) for name in ("keys", "rows"))
        order = np.lexsort((rows, keys))
        keys, rows = keys[order], rows[order]
        first = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])][: len(keys)])
        times = np.concatenate([one.times for one in listed])[order]
        times = np.add.reduceat(times, first) if len(first) else times
        left = times != 0
        return cls(keys[first][left], rows[first][left], times[left])

    def __neg__(self) -> Copies:
        return Copies(self.keys, self.rows, -self.times)

    @property
    def total(self) -> int:
        """The sum of the times."""
        return int(self.times.sum())

    def differences(self) -> tuple[int, int, int]:
        """Missing, extra and different rows, when these are the source's without the lake's."""
        _, inverse = np.unique(self.keys, return_inverse=True)
        more, less = (np.zeros(len(self.keys), np.int64) for _ in "ml")
        np.add.at(more, inverse, np.maximum(self.times, 0))
        np.add.at(less, inverse, np.maximum(-self.times, 0))
        different = int(np.minimum(more, less).sum())
        return int(more.sum()) - different, int(less.sum()) - different, different


def _digests(texts: pa.Array) -> Words:
    whole = b"".join(blake2b(text, digest_size=8).digest() for text in texts.to_pylist())
    return np.frombuffer(whole, np.uint64)


class Side(Protocol):
    """Rows of a fixed version."""

    def sums(self, buckets: int) -> Sums: ...
    def rows(self, buckets: int, wanted: Buckets) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class LakeSide:
    """One version of a lake table: its living rows that fulfil a condition in SQL. `fields` are the compared
    columns."""

    table: DeltaTable
    fields: Sequence[pa.Field]
    key: tuple[str, ...]
    condition: str = ""

    @property
    def columns(self) -> Columns:
        return Columns(self.key, tuple(field.name for field in self.fields))

    def sums(self, buckets: int) -> Sums:
        return lake_sums(self.columns, buckets, self._all())

    def rows(self, buckets: int, wanted: Buckets) -> Iterator[pa.RecordBatch]:
        return (part.rows for part in self.hashed(buckets, wanted))

    def hashed(self, buckets: int, wanted: Buckets) -> Iterator[Hashed]:
        """The rows of some buckets, with their hashes."""
        return (part.within(wanted) for part in hashed(self.columns, buckets, self._all()))

    def _all(self) -> Iterator[pa.RecordBatch]:
        return lake_rows(self.table, self.fields, self.condition)


def counted(source: Side, lake: LakeSide, buckets: int, since: Copies | None = None, place: str = "") -> Comparison:
    """Compares both. `since`: rows that came to the source after the lake's place; deleted rows count negatively.

    Raises LakeError when too much differs to be counted."""
    since = Copies.all([] if since is None else [since])
    with ThreadPoolExecutor(1, "lake-sums") as other:
        pending = other.submit(lake.sums, buckets)
        here, there = source.sums(buckets), pending.result()
    left = Copies.all([-since])
    for wanted in _parts(here, there):
        left = _folded(left, _signed(source, lake, buckets, wanted), place)
    return Comparison(here.total - since.total, there.total, *left.differences())


def _signed(source: Side, lake: LakeSide, buckets: int, wanted: Buckets) -> Iterator[Copies]:
    """Yields the rows of some buckets, the lake's with negative counts, a batch of each side in turn, so that equal
    rows do not pile up."""
    ours = (Copies.of(batch, lake.columns) for batch in source.rows(buckets, wanted))
    theirs = (-Copies.of(batch, lake.columns) for batch in lake.rows(buckets, wanted))
    for pair in zip_longest(ours, theirs):
        yield from (one for one in pair if one is not None)


def _folded(left: Copies, parts: Iterable[Copies], place: str) -> Copies:
    """Adds the parts up as they come. Raises LakeError for more than _MOST distinct rows."""
    waiting: list[Copies] = []
    rows = 0
    for part in parts:
        waiting.append(part)
        rows += len(part.keys)
        if rows >= max(len(left.keys), _ROWS_FOLDED):
            left, waiting, rows = _bounded(Copies.all([left, *waiting]), place), [], 0
    return _bounded(Copies.all([left, *waiting]), place)


def _bounded(left: Copies, place: str) -> Copies:
    if len(left.keys) > _MOST:
        message = f"more than {_MOST} rows differ"
        raise LakeError(message, place=place, hint="Reload the table from the source: sluice copy.")
    return left


def _parts(here: Sums, there: Sums) -> Iterator[Buckets]:
    """The buckets that differ, in parts of so many rows."""
    wanted = here.differing(there)
    rows = np.cumsum(here.rows[wanted] + there.rows[wanted]) // _ROWS_AT_ONCE
    for part in np.unique(rows):
        yield wanted[rows == part]
