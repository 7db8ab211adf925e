"""Claims of shards: their tables take them as any table does, and their union follows in the same batch. delta-rs
writes the tables, in this process instead of Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from cdc_core.schema.ddl import EffectKind
from spark_jobs.apply import together, united
from spark_jobs.apply.cascade import Cascades, Done
from spark_jobs.apply.result import Cascaded
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.session import Sessions
from spark_jobs.write.order import Order, Outcome
from spark_jobs.write.small_table import written
from tests.support.applying import apply_batch
from tests.support.ddl_claims import effect, statement
from tests.support.lake_trial import LakeTrial
from tests.support.spark_feed import Change, Feed, Table, feed

ORDERS = Union("all.orders", r"shop\.orders_(\d+)", ("shop",))
NOT_0 = r"shop\.orders_([1-9]\d*)"
FIELDS = pa.schema({"id": pa.int64(), "what": pa.string()})


class NoSpark:
    """In place of the sessions: nothing here is for Spark."""

    def take(self) -> Any:
        raise AssertionError("Spark was asked")


def here(_: Sessions, orders: list[Order], __: int) -> list[Outcome]:
    return [written(order) for order in orders]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeTrial]:
    """A lake with a union, and two shards with a row each up to position 200."""
    monkeypatch.setattr(together, "write_all", here)
    with feed() as service:
        trial = LakeTrial(service, cast(Sessions, NoSpark()), tmp_path)
        trial.lake = Lake(tmp_path, complete=True, unions=Unions("d", (ORDERS,)))
        for shop in (1, 2):
            put(service, shop, Change(200, None, (shop, "first")))
        assert not trial.apply(0, 200).refused
        yield trial


def put(service: Feed, shop: int, *changes: Change, fields: pa.Schema = FIELDS) -> None:
    service.put(Table(f"orders_{shop}", fields, key=("id",)), changes)


def union(trial: LakeTrial) -> set[tuple[Any, ...]]:
    """The rows of the union, with whose they are."""
    table = DeltaTable(trial.lake.path("all", "orders")).to_pyarrow_table()
    assert table.num_rows == len({*zip(*(column.to_pylist() for column in table.columns), strict=True)})
    return {*zip(*(column.to_pylist() for column in table.columns), strict=True)}


def version(trial: LakeTrial) -> int:
    return trial.lake.open(trial.lake.path("all", "orders")).version()


def test_the_shards_of_a_claim_are_one_commit_of_their_union(trial: LakeTrial) -> None:
    """Each with its own progress; a claim that comes again adds nothing."""
    assert union(trial) == {(1, "first", "1"), (2, "first", "2")}
    before = version(trial)
    for shop in range(1, 21):
        put(trial.service, shop, Change(300 + shop, None, (100, "new")))
    put(trial.service, 2, Change(350, (2, "first"), None))
    done = trial.apply(200, 400)
    assert len(done.applied) == 20
    assert version(trial) == before + 1
    assert [(one.union, one.added > 0) for one in done.published] == [("all.orders", True)]
    assert union(trial) == {(1, "first", "1")} | {(100, "new", str(shop)) for shop in range(1, 21)}
    assert trial.state("orders_2").applied is not None
    assert all(one.replayed for one in trial.apply(200, 400).applied)
    assert version(trial) == before + 1


def test_a_batch_whose_union_was_not_published_is_made_up(trial: LakeTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run dies between the tables' commits and the union's; the claim comes again."""
    put(trial.service, 1, Change(300, None, (100, "new")))

    def dies(*_: Any) -> None:
        raise LakeError("no room", place="lake", hint="Make room.")

    with monkeypatch.context() as patched:
        patched.setattr(united, "publish", dies)
        with pytest.raises(LakeError):
            trial.apply(200, 400)
    assert (100, "new", "1") not in union(trial)
    (again,) = trial.apply(200, 400).applied
    assert again.replayed
    assert (100, "new", "1") in union(trial)


def test_rows_of_a_cascade_are_in_their_union(trial: LakeTrial) -> None:
    """The claim has a row of the parent alone, which is no shard; its binlog has none of the shard's."""
    put(trial.service, 0, Change(300, None, (1, "parent")))
    name, path = "shop.orders_2", trial.lake.path("shop", "orders_2")

    def follow(*_: Any) -> Done:
        trial.lake.open(path).delete("id = 2")
        return Done((Cascaded(name, "shop.orders_0", 1, 0),), looked_up={name: None})

    cascades = SimpleNamespace(tables=lambda _: frozenset(), follow=follow)
    trial.lake = Lake(trial.lake.root, complete=True, unions=Unions("d", (replace(ORDERS, pattern=NOT_0),)))
    claim = trial.claim(200, 400)
    assert claim.table_names == ("shop.orders_0",)
    done = apply_batch(claim, trial.lake, trial.sessions, trial.service.url, cascades=cast(Cascades, cascades))
    assert [(one.union, one.removed) for one in done.published] == [("all.orders", 1)]
    assert union(trial) == {(1, "first", "1")}


def test_a_dropped_shard_keeps_its_rows(trial: LakeTrial) -> None:
    """As the policy has it; the others go on."""
    put(trial.service, 2, Change(350, None, (4, "y")))
    assert not trial.apply(200, 400, statement(300, effect(EffectKind.DROP, "orders_1"))).refused
    assert union(trial) == {(1, "first", "1"), (2, "first", "2"), (4, "y", "2")}


def test_columns_come_shard_by_shard(trial: LakeTrial) -> None:
    """Rows of the others have NULL there, and each shard goes on by its own definition."""
    wide = pa.schema([*FIELDS, pa.field("note", pa.string())])
    put(trial.service, 3, Change(300, None, (3, "x", "n")), fields=wide)
    put(trial.service, 2, Change(301, None, (4, "y")))
    assert not trial.apply(200, 400).refused
    names = [field.name for field in trial.lake.open(trial.lake.path("all", "orders")).schema().fields]
    assert names == ["id", "what", "note", "shop"]
    assert {(3, "x", "n", "3"), (4, "y", None, "2"), (1, "first", None, "1")} <= union(trial)


def test_a_shard_of_another_shape_stops_alone(trial: LakeTrial) -> None:
    """Its own table has its rows; the union has the others'."""
    odd = pa.schema({"id": pa.int64(), "what": pa.float64()})
    put(trial.service, 3, Change(300, None, (3, 1.5)), fields=odd)
    put(trial.service, 2, Change(301, None, (4, "y")))
    done = trial.apply(200, 400)
    (refused,) = done.refused
    assert (refused.table, [one.table for one in done.applied]) == ("shop.orders_3", ["shop.orders_2"])
    assert "'what' is double, and string in the union" in refused.error.message
    assert (4, "y", "2") in union(trial)
    assert all(row[2] != "3" for row in union(trial))
    assert trial.lake.state(trial.lake.path("shop", "orders_3"), app_id("d", 1, "shop.orders_3", 1)) is not None


def test_a_table_that_goes_nowhere_stops_alone(trial: LakeTrial) -> None:
    """It would go into two unions."""
    both = (ORDERS, Union("more.orders", r"shop\.(orders)_3", ("what",)))
    trial.lake = Lake(trial.lake.root, complete=True, unions=Unions("d", both))
    put(trial.service, 3, Change(300, None, (3, "x")))
    put(trial.service, 2, Change(301, None, (4, "y")))
    done = trial.apply(200, 400)
    assert [one.table for one in done.refused] == ["shop.orders_3"]
    assert (4, "y", "2") in union(trial)
