"""The sensor that starts snapshots by itself, over a double of the service."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from cdc_core.contract.status import ErrorReport
from cdc_core.errors import PositionPurged
from cdc_core.schema.table import TableSchema
from orchestration.jobs.by_hand import job_of, tag_of
from orchestration.sensors import purged, snapshots
from orchestration.sensors.round import Round
from orchestration.sensors.runs import Runs
from orchestration.sensors.snapshots import decide, snapshot_sensor
from orchestration.settings import Settings
from orchestration.verbs.orders import Reset, Snapshot
from tests.support.canal_double import ORDERS, USERS, MemoryCanal
from tests.support.dagster_runs import drain_shop


@dataclass
class Lake:
    """A lake that has some tables, and how often it was asked for each."""

    there: list[TableSchema]
    conf: str | None = "/conf"
    asked: list[str] = field(default_factory=list)

    def has(self, table: TableSchema) -> bool:
        self.asked.append(table.name)
        return table in self.there


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def settings(snapshot: str) -> Settings:
    return Settings(destination="shop", lake="/lake", snapshot=snapshot)


def made(canal: MemoryCanal, lake: Any, snapshot: str = "initial") -> dg.SensorDefinition:
    known = settings(snapshot)
    return snapshot_sensor(known, job_of(Snapshot, known), job_of(Reset, known), canal.connect, lake, Round())


def tick(
    canal: MemoryCanal,
    lake: Lake,
    instance: dg.DagsterInstance,
    snapshot: str = "initial",
    sensor: dg.SensorDefinition | None = None,
    cursor: str | None = None,
) -> SensorExecutionData:
    sensor = sensor or made(canal, lake, snapshot)
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        return sensor.evaluate_tick(context)


def test_missing_tables_begin_and_are_read(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at the first tick; a run is requested as soon as nobody reads them. All tables are looked at again
    after a while only, if the service has read something, and those that are in the lake not at all."""
    canal, lake = MemoryCanal(), Lake([USERS])
    sensor = made(canal, lake)
    tick(canal, lake, instance, sensor=sensor)
    assert [stop.table for stop in canal.stopped] == ["shop.orders"]
    canal.snapshots.opened = [replace(one, lease_deadline=0.0) for one in canal.snapshots.opened]
    lake.asked.clear()

    second = tick(canal, lake, instance, sensor=sensor)

    assert lake.asked == []
    (request,) = second.run_requests
    assert request.run_config["ops"]["snapshot_shop_op"]["config"]["tables"] == ["shop.orders"]
    monkeypatch.setattr(snapshots, "_LOOK_SECONDS", 0.0)
    tick(canal, lake, instance, sensor=sensor)
    assert lake.asked == []
    canal.put += 1
    tick(canal, lake, instance, sensor=sensor)
    assert lake.asked == ["shop.orders"]


def test_its_cursor_is_small(instance: dg.DagsterInstance) -> None:
    """Dagster writes the cursor at each tick, and keeps it with the tick: it has no names of tables, and what an older
    version left there is replaced."""
    old = '["shop.orders", "shop.users"]'
    assert len(tick(MemoryCanal(), Lake([ORDERS, USERS]), instance, cursor=old).cursor or old) < 10
    assert len(tick(MemoryCanal(), Lake([], conf=None), instance, cursor=old).cursor or old) < 10


def test_a_statement_that_waits_may_make_a_table(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing begins before it is applied."""
    canal = MemoryCanal()
    status = replace(canal.client_status(), backlog_ddl=1)
    monkeypatch.setattr(canal, "client_status", lambda: status)
    assert tick(canal, Lake([]), instance).skip_message == "no table needs a snapshot"
    assert canal.stopped == []


def test_when_needed_reads_what_the_stream_cannot_complete(instance: dg.DagsterInstance) -> None:
    """Besides what `initial` reads, which leaves such tables to a person."""
    canal, lake = MemoryCanal(), Lake([ORDERS, USERS])
    assert tick(canal, lake, instance, "when_needed").skip_message == "no table needs a snapshot"
    end = canal.client_status().cursor
    assert end is not None
    canal.stop_table("shop.orders", reason="wrong", hint="", position=end, copy_needed=True)
    assert tick(canal, lake, instance, "initial").run_requests == []
    (request,) = tick(canal, lake, instance, "when_needed").run_requests
    assert request.job_name == "snapshot_shop"
    assert request.run_config["ops"]["snapshot_shop_op"]["config"]["tables"] == ["shop.orders"]


def test_a_purged_place_is_left_by_a_rewind(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `when_needed`, for this client's place alone, with the reason, and not twice at once."""
    canal, lake = MemoryCanal(), Lake([ORDERS, USERS])
    lost = PositionPurged("the journal bin.000001 was purged", place="bin.000001:4", hint="")
    canal.error = ErrorReport.of(lost)
    lost_by = {1001}
    monkeypatch.setattr(canal.by_hand, "is_purged", lambda client_id: client_id in lost_by)

    assert tick(canal, lake, instance, "initial").run_requests == []
    (request,) = tick(canal, lake, instance, "when_needed").run_requests
    assert request.job_name == "reset_shop"
    config = request.run_config["ops"]["reset_shop_op"]["config"]
    assert (config["anew"], config["dry_run"]) == (True, False)
    assert "the journal bin.000001 was purged at bin.000001:4" in config["reason"]

    tags = {tag_of(Reset): "shop"}
    run = instance.create_run_for_job(drain_shop, status=dg.DagsterRunStatus.STARTED, tags=tags)
    assert f"run {run.run_id[:8]} is started" in (tick(canal, lake, instance, "when_needed").skip_message or "")
    lost_by.clear()
    assert "no table" in (tick(canal, lake, instance, "when_needed").skip_message or "")


def test_a_rewind_that_failed_is_tried_later() -> None:
    """And says why it is needed."""
    lost = PositionPurged("was purged", place="bin.000001:4", hint="Keep binlogs longer.")
    found = purged.decide(settings("when_needed"), lost, Runs(last="a", last_ended=100.0, failures=2), 101.0)
    assert isinstance(found, dg.SkipReason)
    assert "next try in 9 s: was purged at bin.000001:4" in (found.skip_message or "")


def test_without_the_configuration_nothing_begins(instance: dg.DagsterInstance) -> None:
    """The source could not be read; the reason says what is missing."""
    canal = MemoryCanal()
    assert "`conf`" in (tick(canal, Lake([], conf=None), instance).skip_message or "")
    assert canal.stopped == []


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (Runs(active="0123456789", active_status="started"), "run 01234567 is started"),
        (Runs(last="a", last_ended=100.0, failures=2), "the last snapshot failed; next try in 9 s"),
    ],
)
def test_one_run_at_a_time_and_later_after_a_failure(runs: Runs, said: str) -> None:
    """The reason is a sentence."""
    found = decide(settings("initial"), [ORDERS.name], runs, 101.0)
    assert isinstance(found, dg.SkipReason)
    assert found.skip_message == said


def test_another_run_has_another_key() -> None:
    """Dagster keeps a key for ever, also that of a failed run."""
    found = [decide(settings("initial"), ["s.t"], Runs(last=last), 0.0) for last in ("", "aaaaaaaaa", "bbbbbbbbb")]
    assert len({one.run_key for one in found if isinstance(one, dg.RunRequest)}) == 3
