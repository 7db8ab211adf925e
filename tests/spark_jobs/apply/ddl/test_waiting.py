"""The rows of a quarantine at a RENAME."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.contract.claim import Claim
from cdc_core.schema.ddl import EffectKind
from spark_jobs.apply.ddl.waiting import take_over, waiting_rows
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.notes import Notes
from spark_jobs.session import Sessions
from tests.support.applying import apply_batch
from tests.support.ddl_claims import effect, statement, with_ddl
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32()})
EXPECTED = Expectations({"shop.*": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)})


def target_of(lake: Lake, claim: Claim, name: str) -> Any:
    batch = SimpleNamespace(lake=lake, claim=claim, fence=Fence(lake, NO_SPARK))
    return SimpleNamespace(batch=batch, table=f"shop.{name}", app=f"sluice:d:1:shop.{name}:1")


def test_rows_are_swapped_with_their_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the run died in the middle: what a table had before the statement is read again."""
    run_job_here(monkeypatch)
    lake = Lake(tmp_path)
    with feed() as service:
        for at, name in enumerate(("a", "b", "c"), 1):
            service.put(Table(name, FIELDS, key=("id",)), [Change(1, None, (at, 50)), Change(2, None, (10 + at, 5))])
        claim = service.claim(1, 0, 2)
        apply_batch(claim, lake, NO_SPARK, service.url, expectations=EXPECTED)

    target = partial(target_of, lake, claim)
    step: Any = SimpleNamespace(version=claim.end.version() + 5)
    states = {name: lake.state(lake.path("shop", name), target(name).app) for name in ("a", "b")}
    for _ in ("killed", "again"):
        before = {name: waiting_rows(target(name), states[name]) for name in ("a", "b")}
        take_over(target("a"), step, before["b"])
    take_over(target("b"), step, before["a"])
    take_over(target("new"), step, None)
    take_over(target("c"), step, None)

    def ids(name: str) -> list[int]:
        return DeltaTable(lake.quarantine_path("shop", name)).to_pyarrow_table()["id"].to_pylist()

    assert (ids("a"), ids("b"), ids("c")) == ([2], [1], [])
    assert not Path(lake.quarantine_path("shop", "new")).exists()


@pytest.mark.integration
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("expects", ["shop.*", "shop.orders"])
def test_rows_wait_on_under_a_new_name(sessions: Sessions, tmp_path: Path, *, together: bool, expects: str) -> None:
    """Whether the table's next rows come with the statement or later, and whether something is expected of it under
    its new name: they wait until their keys change."""
    expected, fields = Expectations({expects: EXPECTED.tables["shop.*"]}), {"id": pa.int64(), "n": pa.int32()}
    orders, sold = (Table(name, pa.schema(fields), key=("id",)) for name in ("orders", "sold"))
    lake, notes, batches = Lake(tmp_path), Notes(), itertools.count(1)
    rename = statement(200, effect(EffectKind.RENAME, "orders", to="sold"))

    def waiting(name: str) -> list[tuple[int, int]]:
        at = target_of(lake, claim, name)
        state = lake.state(lake.path("shop", name), at.app)
        assert state is not None
        rows = waiting_rows(at, state)
        return [] if rows is None else sorted(zip(*(rows[one].to_pylist() for one in ("id", "n")), strict=True))

    def apply(start: int, end: int, *ddl: Any) -> Any:
        one = with_ddl(service.claim(next(batches), start, end), *ddl)
        done = apply_batch(one, lake, sessions, service.url, expectations=expected, notes=notes)
        assert not done.refused
        return one

    with feed() as service:
        service.put(orders, [Change(at, None, (at, 50)) for at in (1, 2, 3)])
        claim = apply(0, 10)
        assert waiting("orders") == [(1, 50), (2, 50), (3, 50)]
        service.put(sold, [Change(250, (1, 50), (1, 5)), Change(260, (2, 50), None), Change(270, None, (4, 4))])
        if together:
            claim = apply(10, 300, rename)
        else:
            claim = apply(10, 200, rename)
            assert waiting("sold") == [(1, 50), (2, 50), (3, 50)]
            claim = apply(200, 300)
    assert waiting("sold") == [(3, 50)]
    assert sorted(DeltaTable(lake.path("shop", "sold")).to_pyarrow_table()["id"].to_pylist()) == [1, 4]
    assert waiting("orders") == []
