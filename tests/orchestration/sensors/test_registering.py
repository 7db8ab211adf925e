"""The sensor that starts registrations, over a lake of its own, without Spark and without a catalog."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from orchestration.jobs.by_hand import job_of, tag_of
from orchestration.resources import LakeResource
from orchestration.sensors import registering
from orchestration.sensors.registering import registering_sensor
from orchestration.sensors.round import Round
from orchestration.sensors.runs import Runs
from orchestration.settings import Settings
from orchestration.verbs.orders import Register
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.lake.catalog_names import CatalogRules
from tests.support.jobs import executed


def tick(lake: Path) -> SensorExecutionData:
    """One look of the destination `shop`."""
    known = Settings(destination="shop", lake=str(lake), catalog="spark_catalog")
    resource = LakeResource(root=str(lake), remote="sc://127.0.0.1:1")
    sensor = registering_sensor(known, job_of(Register, known), resource, Round())
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance=instance) as context:
        return sensor.evaluate_tick(context)


def table(lake: Path, name: str) -> None:
    DeltaTable.create(str(lake / "shop" / name), Schema([Field("id", PrimitiveType("long"))]))


def test_a_run_starts_for_what_is_owed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason; none when the catalog was brought to what the lake has, and none before its time after a run
    that failed."""
    table(tmp_path, "orders")
    (request,) = tick(tmp_path).run_requests
    config = request.run_config["ops"]["register_shop_op"]["config"]
    assert config == {"reason": "the names in the catalog spark_catalog are new"}
    notes = CatalogNotes(LakeResource(root=str(tmp_path), remote="").lake, "shop", 1001)
    notes.settle(CatalogRules(), ["shop/orders"], "")
    assert tick(tmp_path).skip_message == "the catalog spark_catalog has the lake's tables"
    table(tmp_path, "users")
    (request,) = tick(tmp_path).run_requests
    assert "shop/users" in request.run_config["ops"]["register_shop_op"]["config"]["reason"]
    notes.postpone(CatalogRules(), ["shop/orders", "shop/users"], "", 3600, time.time())
    assert "could not be registered; next try in 7" in (tick(tmp_path).skip_message or "")
    table(tmp_path, "items")
    assert tick(tmp_path).run_requests
    late = Runs(last="r", last_ended=1e12, failures=3)
    monkeypatch.setattr(registering, "recent", lambda *_: late)
    assert "the last registration failed" in (tick(tmp_path).skip_message or "")


def test_a_spark_that_is_away_fails_the_run(tmp_path: Path) -> None:
    """It is owed still. Without a catalog the run says how to name one."""
    table(tmp_path / "lake", "orders")
    known = Settings(destination="shop", lake=str(tmp_path / "lake"), catalog="spark_catalog")
    done = executed(Register, "http://127.0.0.1:1", tmp_path, settings=known, catalog="spark_catalog", reason="why")
    assert not done.success
    assert "the Spark Connect server does not answer" in done.failure
    assert tick(tmp_path / "lake").run_requests
    done = executed(Register, "http://127.0.0.1:1", tmp_path, settings=known, reason="why")
    assert "no catalog is named" in done.failure
    assert tag_of(Register) == "cdc/register"
