"""orchestration.demo.mart: the asset in the graph, and what it reads. Spark is a double."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from orchestration.demo import mart as module
from orchestration.demo.files import write_mart
from orchestration.demo.mart import SqlMart, mart_asset
from orchestration.loading import load_destination
from tests.support.lake_history import LakeHistory

TABLES = ["shop.orders", "shop.order_items", "shop.payments"]


class SparkDouble:
    """Keeps statements; every query has one row with the number 0."""

    def __init__(self, *_: Any) -> None:
        self.statements: list[str] = []

    def __enter__(self) -> SparkDouble:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextmanager
    def take(self) -> Iterator[SparkDouble]:
        yield self

    def sql(self, statement: str) -> SparkDouble:
        self.statements.append(statement)
        return self

    def table(self, _name: str) -> SparkDouble:
        return self

    def collect(self) -> list[tuple[int]]:
        return [(0,)]

    def count(self) -> int:
        return 3


def mart(lake: LakeHistory) -> SqlMart:
    query = "SELECT count(*) FROM {shop.orders} JOIN {shop.payments} USING (id)"
    return SqlMart(
        table="mart.sales", destination="d", lake=lake.lake.root, client_id=1, tables=TABLES, query=query,
        contradictions="SELECT 0 FROM {shop.orders}",
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> LakeHistory:
    history = LakeHistory(tmp_path, random.Random(1), TABLES)
    history.commit(*TABLES)
    history.batch_of(1)
    return history


def test_the_demo_has_a_mart_that_follows_its_tables(tmp_path: Path) -> None:
    """Its asset comes after the lake's tables, and a sensor that runs makes it again."""
    write_mart(tmp_path, tmp_path / "lake", "sc://127.0.0.1:1")
    found = load_destination(tmp_path / "mart" / "defs.yaml")

    assets = found.resolve_asset_graph()
    key = dg.AssetKey(["mart", "mart", "daily_sales"])
    assert assets.get(key).parent_keys == {dg.AssetKey(["delta", "shop", *one.split(".")]) for one in TABLES}
    assert assets.get(key).automation_condition is not None
    (sensor,) = found.sensors or ()
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_it_is_made_again_when_a_table_was_materialized(lake: LakeHistory) -> None:
    """Once all are there."""
    definitions, instance = dg.Definitions(assets=[mart_asset(mart(lake))]), dg.DagsterInstance.ephemeral()
    keys = [dg.AssetKey(["delta", "d", *one.split(".")]) for one in TABLES]
    requested, cursor = list[int](), None
    for materialized in ([], keys[:2], keys[2:], [], keys[:1]):
        for key in materialized:
            instance.report_runless_asset_event(dg.AssetMaterialization(key))
        found = dg.evaluate_automation_conditions(definitions, instance=instance, cursor=cursor)
        cursor, requested = found.cursor, [*requested, found.total_requested]
        if found.total_requested:
            instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["mart", "mart", "sales"])))
    assert requested == [0, 0, 1, 0, 1]


def test_it_is_made_of_tables_of_one_transaction(lake: LakeHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One was written further by a run that died: the place is the last one that all have."""
    lake.commit(*TABLES)
    lake.batch_of(1, only=["shop.orders"])
    spark = SparkDouble()
    monkeypatch.setattr(module, "Sessions", lambda *_: spark)
    done = dg.materialize([mart_asset(mart(lake))])

    (made,) = done.asset_materializations_for_node("mart_mart_sales")
    assert made.metadata["position"].value == str(lake.server.position(0))
    assert spark.statements[-2] == (
        "CREATE OR REPLACE TABLE `mart`.`sales` USING delta AS SELECT count(*) FROM `shop.orders__as_of` "
        "JOIN `shop.payments__as_of` USING (id)"
    )
    assert [one.split(" AS ")[0] for one in spark.statements if "VIEW" in one] == [
        f"CREATE OR REPLACE TEMPORARY VIEW `{one}__as_of`" for one in TABLES
    ]
    assert done.get_asset_check_evaluations()[0].passed


def test_it_stays_as_it_is_while_there_is_no_such_place(lake: LakeHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written, and the run is no failure."""
    monkeypatch.setattr(module, "Sessions", SparkDouble)
    DeltaTable(lake.path("shop.orders")).restore(0)
    lake.vacuum("shop.orders")
    done = dg.materialize([mart_asset(mart(lake))])
    assert done.success
    assert not done.asset_materializations_for_node("mart_mart_sales")
    (check,) = done.get_asset_check_evaluations()
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "shop.orders" in str(check.description)
