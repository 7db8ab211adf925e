"""The batches in the lake's ledger: their rows, and when they were visible. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from orchestration.demo.freshness import Visible
from spark_jobs.lake.tables import Lake


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
