"""The rows of a quarantine at a RENAME, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.apply.batch import apply_batch
from spark_jobs.apply.ddl.waiting import take_over, waiting_rows
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32()})
EXPECTED = Expectations({"shop.*": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)})


def test_rows_are_swapped_with_their_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the run died in the middle: what a table had before the statement is read again."""
    run_job_here(monkeypatch)
    lake = Lake(tmp_path)
    with feed() as service:
        for at, name in enumerate(("a", "b", "c"), 1):
            service.put(Table(name, FIELDS, key=("id",)), [Change(1, None, (at, 50)), Change(2, None, (10 + at, 5))])
        claim = service.claim(1, 0, 2)
        apply_batch(claim, lake, NO_SPARK, service.url, expectations=EXPECTED)

    def target(name: str) -> Any:
        batch = SimpleNamespace(lake=lake, claim=claim, fence=Fence(lake, NO_SPARK))
        return SimpleNamespace(batch=batch, table=f"shop.{name}", app=f"sluice:d:1:shop.{name}:1")

    step: Any = SimpleNamespace(version=claim.end.version() + 5)
    states = {name: lake.state(lake.path("shop", name), target(name).app) for name in ("a", "b")}
    for _ in ("killed", "again"):
        before = {name: waiting_rows(target(name), states[name]) for name in ("a", "b")}  # type: ignore[arg-type]
        take_over(target("a"), step, before["b"])
    take_over(target("b"), step, before["a"])
    take_over(target("new"), step, None)
    take_over(target("c"), step, None)

    def ids(name: str) -> list[int]:
        return DeltaTable(lake.quarantine_path("shop", name)).to_pyarrow_table()["id"].to_pylist()

    assert (ids("a"), ids("b"), ids("c")) == ([2], [1], [])
    assert not Path(lake.quarantine_path("shop", "new")).exists()
