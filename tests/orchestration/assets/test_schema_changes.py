"""The check of changed columns: what is said, when it is an event, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pydantic import ValidationError

from cdc_core.contract.claim import Claim
from cdc_core.schema.ddl import Ddl, Effect, EffectKind
from orchestration.assets.drain_asset import delta_asset, drain_job
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import declared
from orchestration.assets.merge_asset import merge_asset
from orchestration.assets.schema_changes import SCHEMA_CHANGE, ColumnChanges
from orchestration.names import BUILT_IN
from orchestration.sensors.conditions import of_checks
from orchestration.settings import Settings
from spark_jobs.apply.result import BatchResult, Followed
from spark_jobs.lake.tables import Lake
from tests.support.canal_double import ORDERS, USERS, MemoryCanal, MemoryLake

ORDERS_CHECK = dg.AssetCheckKey(dg.AssetKey(["delta", "shop", "shop", "orders"]), SCHEMA_CHANGE)


class AlteringCanal(MemoryCanal):
    """Batch n begins with the n-th of these statements on shop.orders; "" for none."""

    statements: Sequence[str] = ()

    def get_without_ack(self, *given: Any, **named: Any) -> Claim | None:
        claim = super().get_without_ack(*given, **named)
        text = self.statements[self.get - 1] if claim else ""
        if claim is not None and text:
            ddl = Ddl(claim.start, "shop", text, (Effect(EffectKind.ALTER, "shop", "orders"),))
            claim = self.held[-1] = replace(claim, ddl=(ddl,))
        return claim


class AlteredLake(MemoryLake):
    """Its shop.orders is altered as the statements of a claim say: each lists the columns with their types."""

    def __init__(self, root: Path) -> None:
        super().__init__(self._altered)
        self.lake = Lake(root)  # type: ignore[misc]
        self.write("id int64, n int32")

    def write(self, columns: str) -> None:
        named = [one.split() for one in columns.split(", ")]
        table = pa.schema([(name, getattr(pa, kind)()) for name, kind in named]).empty_table()
        write_deltalake(self.lake.path("shop", "orders"), table, mode="overwrite", schema_mode="overwrite")

    def _altered(self, claim: Claim, batch: BatchResult) -> BatchResult:
        for one in claim.ddl:
            self.write(one.text)
        followed = [Followed("shop.orders", EffectKind.ALTER, one.text, one.position, "altered") for one in claim.ddl]
        return replace(batch, followed=tuple(followed))


def run(
    lake: MemoryLake, instance: dg.DagsterInstance, *statements: str, selected: bool = False, watch: str = "warn"
) -> list[dg.AssetCheckEvaluation]:
    """Drains a batch for each statement. Returns the evaluations of the check."""
    listed = ["shop.orders", "shop.users"]
    settings = Settings(
        destination="shop", lake="/lake", tables=listed, linger_seconds=0, report_seconds=0, schema_change=watch
    )
    tables = LandedTables(settings.modes, declared(settings, [ORDERS, USERS]))
    canal = AlteringCanal(len(statements))
    canal.statements = statements
    resources = {"canal_shop": canal, "lake_shop": lake}
    if selected:
        result = dg.materialize([delta_asset(settings, tables)], resources=resources, instance=instance)
    else:
        jobs = dg.Definitions(jobs=[drain_job(settings, tables)], resources=resources)
        result = jobs.resolve_job_def("drain_shop").execute_in_process(instance=instance)
    return [one for one in result.get_asset_check_evaluations() if one.check_name == SCHEMA_CHANGE]


def test_a_change_is_a_warning_with_its_statement(tmp_path: Path) -> None:
    """One event of the table concerned, as soon as the batch is acked; a statement that changes nothing is none."""
    instance, lake = dg.DagsterInstance.ephemeral(), AlteredLake(tmp_path)
    (found,) = run(lake, instance, "", "id int64, n int64, new string", "id int64, n int64, new string")
    assert (found.asset_key, found.passed, found.severity) == (
        ORDERS_CHECK.asset_key, False, dg.AssetCheckSeverity.WARN,
    )  # fmt: skip
    assert found.description == "added new; changed n (int to bigint), by id int64, n int64, new string"
    facts = {name: value.value for name, value in found.metadata.items()}
    assert (facts["added"], facts["removed"]) == (["new"], [])
    assert (facts["changed"], facts["statements"]) == (["n (int to bigint)"], ["id int64, n int64, new string"])


def test_each_change_of_a_run_is_an_event(tmp_path: Path) -> None:
    """The later one says all that changed in the run."""
    found = run(AlteredLake(tmp_path), dg.DagsterInstance.ephemeral(), "id int64", "id int64, m int32")
    assert [one.description for one in found] == [
        "removed n, by id int64",
        "added m; removed n, by id int64; id int64, m int32",
    ]


def test_the_next_run_with_rows_ends_it(tmp_path: Path) -> None:
    """By one event; a run without rows of the table has none, and later ones have none either. No alert is of it: it
    is no trouble that lasts."""
    instance, lake = dg.DagsterInstance.ephemeral(), AlteredLake(tmp_path)
    run(lake, instance, "id int64")
    assert list(of_checks(instance, Settings(destination="shop", lake="/lake").names, [ORDERS_CHECK])) == []
    assert run(lake, instance) == []
    (over,) = run(lake, instance, "", "")
    assert (over.passed, over.asset_key) == (True, ORDERS_CHECK.asset_key)
    assert run(lake, instance, "", "") == []


def test_columns_that_come_with_rows_count(tmp_path: Path) -> None:
    """There is no statement of them; those of a new table are no change."""
    lake = AlteredLake(tmp_path)
    lake._spoil = lambda _, batch: replace(
        batch,
        applied=tuple(replace(one, added_columns=("x",), created=one.table == "shop.users") for one in batch.applied),
    )
    (found,) = run(lake, dg.DagsterInstance.ephemeral(), "")
    assert found.description == "added x, by no statement: rows came that have it"


def test_without_the_key_nothing_is_read_or_declared(tmp_path: Path) -> None:
    """As before."""
    lake = AlteredLake(tmp_path)
    assert run(lake, dg.DagsterInstance.ephemeral(), "id int64", watch="ignore") == []
    assert run(lake, dg.DagsterInstance.ephemeral(), "id int32", watch="ignore", selected=True) == []


def test_a_run_that_selects_it_has_each_once(tmp_path: Path) -> None:
    """Dagster expects a result of every selected check, changed or not."""
    found = run(AlteredLake(tmp_path), dg.DagsterInstance.ephemeral(), "", selected=True)
    assert sorted((one.asset_key.path[-1], one.passed) for one in found) == [("orders", True), ("users", True)]
    last = run(AlteredLake(tmp_path), dg.DagsterInstance.ephemeral(), "id int64", selected=True)
    assert {(one.asset_key.path[-1], one.passed) for one in last} == {("orders", False), ("users", True)}


@pytest.mark.parametrize("mode", ["merge", "land_first", "history"])
def test_each_table_has_one_whatever_its_mode(mode: str) -> None:
    """Of the table, not of its log or history."""
    listed = ["shop.orders", "shop.users"]
    settings = Settings(destination="shop", lake="/lake", tables=listed, schema_change="warn", apply=mode)
    tables = LandedTables(settings.modes, declared(settings, [ORDERS, USERS]))
    asset = delta_asset(settings, tables) if mode == "merge" else merge_asset(settings, tables)
    keys = [key.asset_key.to_user_string() for key in asset.check_keys if key.name == SCHEMA_CHANGE]
    assert sorted(keys) == ["delta/shop/shop/orders", "delta/shop/shop/users"]


def test_its_name_is_taken() -> None:
    """No expectation may have it; nor does the key know other words."""
    assert SCHEMA_CHANGE in BUILT_IN
    with pytest.raises(ValidationError, match="schema_change"):
        Settings(destination="shop", lake="/lake", schema_change="error")


def test_no_difference_is_none() -> None:
    """The order of columns is no change."""
    assert not ColumnChanges.between({"a": "int", "b": "int"}, {"b": "int", "a": "int"}, ["ALTER"])
