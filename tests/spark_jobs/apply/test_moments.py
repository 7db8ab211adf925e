"""When a table was ready, and when its commit was there: what the stages of a batch are made of."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.lake.tables import Lake
from tests.support.applying import apply_batch
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32()})


def test_a_table_is_ready_before_it_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both by the batch's clock. A table that has the rows already was never ready, and that is said too."""
    run_job_here(monkeypatch)
    ticks = itertools.count(1000.0)
    with feed() as service:
        orders = Table("orders", FIELDS, key=("id",))
        for at in (1, 2):
            service.put(orders, [Change(at, None, (at, 5))])
        claim, lake = service.claim(1, 0, 2), Lake(tmp_path)
        (first,) = apply_batch(claim, lake, NO_SPARK, service.url, clock=lambda: next(ticks)).applied
        (again,) = apply_batch(claim, lake, NO_SPARK, service.url, clock=lambda: next(ticks)).applied
    assert 1000 <= first.planned_at < first.applied_at
    assert (again.replayed, again.planned_at) == (True, 0.0)
    assert again.applied_at > first.applied_at
