"""Freshness: the seconds from a row's commit at the source until it is visible in Delta.

The workload samples the source's position as it commits; the lake's ledger has the time at which each position was
visible. A sample counts from its first commit, so a figure is too large by at most a sample's length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from spark_jobs.lake.tables import Lake


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows committed at the source from `since` on, the last of them at `version` (a position as an integer)."""

    since: float
    version: int
    rows: int


@dataclass(frozen=True, slots=True, order=True)
class Visible:
    """Everything up to `version` was in Delta at `at`."""

    version: int
    at: float


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of the ledger."""

    visible: Visible
    rows: int


def batches(lake: str | Path, destination: str, client_id: int) -> list[Batch]:
    """All batches in the order of their positions; none when there is no ledger yet."""
    try:
        table = DeltaTable(Lake(lake).ledger_path(destination, client_id))
    except TableNotFoundError:
        return []
    question = "SELECT end_version, rows, committed_at FROM batches ORDER BY end_version"
    found = pa.table(QueryBuilder().register("batches", table).execute(question).read_all()).to_pylist()
    return [Batch(Visible(row["end_version"], row["committed_at"].timestamp()), row["rows"]) for row in found]


def percentiles(samples: Iterable[Sample], batches: Iterable[Visible], wanted: Sequence[float]) -> list[float]:
    """For each wanted share, the seconds within which that share of the rows became visible. Zeros without a row."""
    ages = sorted(_ages(samples, sorted(batches)))
    total = sum(rows for _, rows in ages)
    return [_at(ages, share * total) for share in wanted]


def _ages(samples: Iterable[Sample], batches: Sequence[Visible]) -> Iterable[tuple[float, int]]:
    for sample in samples:
        index = bisect_left(batches, sample.version, key=lambda batch: batch.version)
        if index < len(batches):
            yield batches[index].at - sample.since, sample.rows


def _at(ages: Sequence[tuple[float, int]], rank: float) -> float:
    seen = 0
    for age, rows in ages:
        seen += rows
        if seen >= rank:
            return round(max(0.0, age), 2)
    return 0.0
