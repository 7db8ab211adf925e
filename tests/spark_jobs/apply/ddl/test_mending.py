"""spark_jobs.apply.ddl.mending on a real Spark server: the statements that end the stop of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.schema.ddl import ChangeKind, Ddl, EffectKind
from cdc_core.schema.table import Column
from spark_jobs.lake.policies import Changed, TablePolicy
from spark_jobs.session import Sessions
from tests.support.ddl_claims import ID, WHAT, alter, change, effect, schema, statement
from tests.support.lake_trial import LakeTrial, inserts
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration

NAME = "shop.orders"
ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
CREATE = effect(EffectKind.CREATE, "orders", schema=schema("orders"))
DROP, TRUNCATE = effect(EffectKind.DROP, "orders"), effect(EffectKind.TRUNCATE, "orders", schema=schema("orders"))


@pytest.fixture
def trial(sessions: Sessions, tmp_path: Path) -> Iterator[LakeTrial]:
    """With a table that has stale rows."""
    with feed() as service:
        there = LakeTrial(service, sessions, tmp_path)
        service.put(ORDERS, inserts(1, 2, at=100))
        there.apply(0, 100)
        service.put(ORDERS, inserts(7, at=400))
        yield there


def _more(*ddl: Ddl) -> Any:
    return pytest.param(ddl, marks=pytest.mark.full)


@pytest.mark.parametrize(
    "ddl",
    [
        (statement(200, TRUNCATE),),
        (statement(200, DROP), statement(300, CREATE)),
        _more(statement(200, replace(TRUNCATE, schema=None))),
        _more(statement(200, CREATE)),
        _more(statement(200, DROP), statement(300, replace(CREATE, schema=None))),
    ],
    ids=["truncate", "drop, create", "truncate of unknown columns", "create or replace", "drop, create, unknown"],
)
def test_a_statement_mends_a_stopped_table(trial: LakeTrial, ddl: tuple[Ddl, ...]) -> None:
    """Its rows after the statement are applied. A run that died before the ack finds the stop, and mends it again."""
    for _ in range(2):
        batch = trial.apply(100, 400, *ddl, stopped=[NAME])
        assert batch.mended == (NAME,)
        assert not batch.refused
        assert trial.rows("orders") == {(7, "x"): 1}
        assert not batch.notes({})[NAME].stopped


def test_a_mended_table_without_rows_is_noted(trial: LakeTrial) -> None:
    """The ledger would show the stop as the table's last word else; and the dropped table's rows stay, by policy."""
    batch = trial.apply(100, 200, statement(200, DROP), stopped=[NAME])
    assert batch.mended == (NAME,)
    assert not batch.notes({})[NAME].stopped
    assert len(trial.rows("orders")) == 2


def test_what_came_before_the_stop_mends_nothing(trial: LakeTrial) -> None:
    """The table had the statement, then stopped at rows of the same claim; the run died before the ack."""
    trial.apply(100, 400, statement(200, TRUNCATE))
    batch = trial.apply(100, 400, statement(200, TRUNCATE), stopped=[NAME])
    assert batch.mended == ()
    assert batch.applied == ()


def test_a_statement_that_may_have_done_nothing_mends_nothing(trial: LakeTrial) -> None:
    """CREATE TABLE IF NOT EXISTS; and by policy `exception` a TRUNCATE that the table must not follow."""
    create = replace(CREATE, conditional=True)
    assert trial.apply(100, 200, statement(200, create), stopped=[NAME]).mended == ()
    policy = TablePolicy(changed=Changed.EXCEPTION)
    batch = trial.apply(200, 300, statement(300, TRUNCATE), stopped=[NAME], policy=policy)
    assert (batch.mended, batch.refused) == ((), ())
    assert len(trial.rows("orders")) == 2


def test_a_truncated_table_gets_the_columns_of_now(trial: LakeTrial) -> None:
    """It followed nothing while it was stopped. What needs a copy in the same claim does not matter any more either."""
    now = schema("orders", ID, WHAT, Column("n", 3, 0, column_type="int"))
    rewritten = alter(schema("orders"), None, change(ChangeKind.UNKNOWN, definition="?"))
    trial.service.changes.clear()
    later = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string(), "n": pa.int32()}), key=("id",))
    trial.service.put(later, [Change(400, None, (7, "x", 5))])
    batch = trial.apply(100, 400, statement(200, rewritten), statement(300, replace(TRUNCATE, schema=now)))
    assert batch.refused == ()
    assert [column.name for column in trial.state("orders").columns] == ["id", "what", "n"]
    assert trial.rows("orders") == {(7, "x", 5): 1}


def test_a_stopped_table_is_renamed(trial: LakeTrial) -> None:
    """Its rows are wrong, so the new name must be copied, and its reason names both. The old name is free again."""
    rename = statement(200, effect(EffectKind.RENAME, "orders", to="sold"))
    for stopped in ([NAME], [NAME, "shop.sold"]):
        batch = trial.apply(100, 300, rename, statement(300, CREATE), stopped=stopped)
        assert batch.mended == (NAME,)
        (refusal,) = batch.refused
        assert refusal.table == "shop.sold"
        assert refusal.error.message == f"it was renamed from {NAME}, which is stopped"
        assert trial.rows("orders") == {}


def test_a_stopped_table_that_gets_the_rows_of_another_is_mended(trial: LakeTrial) -> None:
    """Of a swap with a stopped table, the good rows go to the stopped name, and the other name must be copied."""
    trial.apply(100, 150, statement(150, effect(EffectKind.CREATE, "others", schema=schema("others"))))
    others = Table("others", ORDERS.fields, key=("id",))
    trial.service.put(others, [Change(180, None, (5, "good"))])
    trial.apply(150, 180)
    names = [("orders", "tmp"), ("others", "orders"), ("tmp", "others")]
    swap = statement(200, *(effect(EffectKind.RENAME, name, to=to) for name, to in names))
    for stopped in ([NAME], [NAME, "shop.others"]):
        batch = trial.apply(180, 200, swap, stopped=stopped)
        assert batch.mended == (NAME,)
        assert [refusal.table for refusal in batch.refused] == ["shop.others"]
        assert trial.rows("orders") == {(5, "good"): 1}
