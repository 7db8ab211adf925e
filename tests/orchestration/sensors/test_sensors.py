"""Sensors: when a run starts, whose claims go back, and what is shown; over a double of the service."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from cdc_core.client.failures import unavailable
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import ErrorReport, Status
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import ServiceUnavailable
from orchestration.definitions import defs
from orchestration.names import LEFT_TAG, UNTIL_TAG
from orchestration.sensors import backlog
from orchestration.sensors.backlog import backlog_sensor
from orchestration.sensors.decision import decide, run_key
from orchestration.sensors.ended import give_back
from orchestration.sensors.round import Round
from orchestration.sensors.runs import Runs, summarize
from orchestration.settings import Settings, Trigger
from orchestration.stack.defs import write_component
from tests.support.canal_double import MemoryCanal, position
from tests.support.dagster_runs import a_run, drain_shop
from tests.support.servers import free_port


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def tick(
    canal: MemoryCanal, instance: dg.DagsterInstance, cursor: str | None = None, **settings: Any
) -> SensorExecutionData:
    """One tick of the backlog sensor."""
    known = Settings(destination="shop", lake="/lake", **settings)
    sensor = backlog_sensor(known, drain_shop, canal.connect, Round())
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        return sensor.evaluate_tick(context)


def said(result: SensorExecutionData) -> str:
    return result.skip_message or ""


def client(**changes: Any) -> ClientStatus:
    return replace(MemoryCanal(batches=3).client_status(), **changes)


def test_a_backlog_starts_a_run_of_its_destination(instance: dg.DagsterInstance) -> None:
    """One request, keyed by what must change before the next."""
    result = tick(MemoryCanal(batches=2), instance)

    assert [request.run_key for request in result.run_requests] == ["shop:0:7000:first"]


def test_the_skip_reason_of_a_drained_store_has_its_position(instance: dg.DagsterInstance) -> None:
    """The skip reason is a sentence."""
    canal = MemoryCanal(batches=2)
    canal.acked = canal.get = 2

    assert said(tick(canal, instance)) == "drained at mysql-bin.000007:2000"


def test_a_destination_stopped_by_hand_is_skipped(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is skipped with the reason; its client is not asked, since that would be refused."""
    canal = MemoryCanal(batches=2)
    status = replace(canal.status(), state="stopped", note="stopped by an operator")
    monkeypatch.setattr(canal, "status", lambda: status)
    monkeypatch.setattr(canal, "client_status", lambda: 1 / 0)

    assert said(tick(canal, instance)) == "shop was stopped by an operator"


def test_a_batch_in_flight_waits_for_its_run(instance: dg.DagsterInstance) -> None:
    """The claim of a live run is left alone."""
    canal, run_id = MemoryCanal(batches=2), a_run(instance, dg.DagsterRunStatus.STARTED)
    canal.get_without_ack(10, owner=run_id)

    assert said(tick(canal, instance)) == f"batch 1 in flight by run {run_id[:8]}"
    assert canal.rollbacks == 0


def test_a_starting_run_is_not_requested_twice(instance: dg.DagsterInstance) -> None:
    """There is one run at a time."""
    run_id = a_run(instance, dg.DagsterRunStatus.STARTING)

    assert said(tick(MemoryCanal(batches=1), instance)) == f"run {run_id[:8]} is starting"


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
def test_a_dead_runs_claim_goes_back_and_a_run_starts(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    """The owner failed or was cancelled; its batch is rolled back by name."""
    canal = MemoryCanal(batches=2)
    owner = a_run(instance, status)
    canal.get_without_ack(10, owner=owner)

    result = tick(canal, instance)

    assert canal.reasons == [f"run {owner} has ended"]
    assert canal.held == []
    assert result.run_requests or "next try" in said(result)


@pytest.mark.parametrize("tag", ["cdc/destination", "cdc/job_of"])
def test_a_run_without_its_process_is_failed(instance: dg.DagsterInstance, tag: str) -> None:
    """Of the drain and of any other job: they share a pool, so it would hold the drain up."""
    with subprocess.Popen(["true"]) as ended:
        pass
    run = instance.create_run_for_job(drain_shop, status=dg.DagsterRunStatus.STARTED, tags={tag: "shop"})
    instance.add_run_tags(run.run_id, {"cdc/process": f"{run.run_id} {platform.node()} {ended.pid} 0"})

    tick(MemoryCanal(batches=1), instance)

    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE  # type: ignore[union-attr]


def test_a_claim_of_another_dagster_instance_is_left_to_its_lease(instance: dg.DagsterInstance) -> None:
    """Two instances on one client do not roll back each other's work: the owner is at work in the other one."""
    canal = MemoryCanal(batches=2)
    with dg.DagsterInstance.ephemeral() as other:
        owner = a_run(other, dg.DagsterRunStatus.STARTED)
        canal.get_without_ack(10, owner=owner)

        assert said(tick(canal, instance)) == f"batch 1 in flight by run {owner[:8]}"
        assert canal.rollbacks == 0


def test_a_claim_of_no_run_is_left_to_its_lease(instance: dg.DagsterInstance) -> None:
    """The sensor does not roll back a claim made by hand."""
    canal = MemoryCanal(batches=2)
    canal.get_without_ack(10, owner="by hand")

    assert said(tick(canal, instance)) == "batch 1 in flight by run by hand"
    assert canal.rollbacks == 0


def test_the_run_key_changes_with_ack_rollback_and_run() -> None:
    """Dagster remembers keys for ever, even of failed runs, so each reason to run again changes it."""
    first = run_key("shop", client(), Runs())
    others = [
        run_key("shop", client(ack=1), Runs()),
        run_key("shop", client(generation=7001), Runs()),
        run_key("shop", client(), Runs(last="0123456789")),
    ]

    assert first == "shop:0:7000:first"
    assert len({first, *others}) == 4


def test_failed_runs_are_tried_again_ever_later() -> None:
    """A run that fails before its first claim is neither forgotten nor started at every tick."""
    waits = [Runs(last="r", last_ended=100.0, failures=n).next_try - 100.0 for n in (1, 2, 3, 20)]
    assert waits == [5.0, 10.0, 20.0, 300.0]

    failed = Runs(last="0123456789", last_ended=100.0, failures=2)
    early = decide("shop", client(), 1.0, failed, Trigger(), 103.0)
    late = decide("shop", client(), 1.0, failed, Trigger(), 111.0)

    assert isinstance(early, dg.SkipReason)
    assert early.skip_message == "failed 2 times, last in run 01234567; next try in 7 s"
    assert isinstance(late, dg.RunRequest)


def test_failures_are_counted_since_the_last_success(instance: dg.DagsterInstance) -> None:
    """By the records of Dagster, newest first; a cancelled run is not a failure."""
    for status in ("FAILURE", "SUCCESS", "FAILURE", "CANCELED", "FAILURE"):
        last = a_run(instance, dg.DagsterRunStatus(status))

    runs = summarize(instance.get_run_records(limit=10))

    assert (runs.failures, runs.last, runs.active) == (2, last, None)


def test_a_run_that_acked_before_it_failed_does_not_lengthen_the_pause(instance: dg.DagsterInstance) -> None:
    """It made progress: runs that fail in their tenth batch must not come five minutes apart."""
    for to in ("", "mysql-bin.000001:4", "mysql-bin.000001:99"):
        a_run(instance, dg.DagsterRunStatus.FAILURE, **({"to": to} if to else {}))

    assert summarize(instance.get_run_records(limit=10)).failures == 1

    a_run(instance, dg.DagsterRunStatus.FAILURE)

    assert summarize(instance.get_run_records(limit=10)).failures == 2


def test_a_small_backlog_waits_until_it_is_old() -> None:
    """`minimum_rows` gathers, `freshness_seconds` bounds the wait."""
    trigger = Trigger(minimum_rows=1_000, freshness_seconds=60)

    young = decide("shop", client(), 10.0, Runs(), trigger, 0.0)
    old = decide("shop", client(), 61.0, Runs(), trigger, 0.0)

    assert isinstance(young, dg.SkipReason)
    assert young.skip_message == "60 rows are waiting; a run starts at 1000"
    assert isinstance(old, dg.RunRequest)


def test_a_declared_freshness_starts_a_run_in_time() -> None:
    """However many rows there are."""
    trigger = Settings(destination="shop", lake="/lake", freshness="60s").starts
    young = decide("shop", client(), 10.0, Runs(), trigger, 0.0)
    assert isinstance(young, dg.SkipReason)
    assert young.skip_message == "60 rows are waiting; a run starts at their time"
    assert isinstance(decide("shop", client(), 46.0, Runs(), trigger, 0.0), dg.RunRequest)


def test_rows_from_the_future_do_not_wait_for_it(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's clock may be ahead, and sessions set their own time: the sensor's clock counts too, from when it
    saw the rows first, and from then when it is set back."""
    canal, moment = MemoryCanal(batches=2), [1000.0]
    monkeypatch.setattr(backlog.time, "time", lambda: moment[0])
    monkeypatch.setattr(canal, "status", lambda real=canal.status: replace(real(), lag_seconds=0.0))
    result = tick(canal, instance, freshness="30s")
    for moment[0], starts in ((1014.0, False), (900.0, False), (914.0, False), (916.0, True)):
        result = tick(canal, instance, result.cursor, freshness="30s")
        assert bool(result.run_requests) is starts, moment


def test_asap_there_is_always_a_run(instance: dg.DagsterInstance) -> None:
    """One, which waits for rows; none is started at a destination that is in trouble."""
    canal = MemoryCanal()
    assert len(tick(canal, instance, freshness="asap").run_requests) == 1
    assert not tick(canal, instance).run_requests

    a_run(instance, dg.DagsterRunStatus.STARTED)
    assert "is started" in said(tick(canal, instance, freshness="asap"))


def test_asap_a_destination_in_trouble_gets_no_run(instance: dg.DagsterInstance) -> None:
    """The trouble is reported instead."""
    canal = MemoryCanal()
    canal.error = ErrorReport("SourceError", "away", "mysql", "Start it.", 0.0)
    assert "failed" in said(tick(canal, instance, freshness="asap"))


def test_a_ddl_statement_alone_starts_a_run() -> None:
    """It is an item like a row: the lake must follow it though no row comes."""
    waiting = replace(client(), backlog_rows=0, backlog_ddl=1)

    assert isinstance(decide("shop", waiting, 1.0, Runs(), Trigger(), 0.0), dg.RunRequest)
    assert isinstance(decide("shop", replace(waiting, backlog_ddl=0), 1.0, Runs(), Trigger(), 0.0), dg.SkipReason)


def test_the_store_is_observed_when_it_changed(instance: dg.DagsterInstance) -> None:
    """Event logs are never pruned, so without a change there is no event."""
    canal = MemoryCanal(batches=2)
    first = tick(canal, instance)
    again = tick(canal, instance, cursor=first.cursor)

    observed = [event for event in first.asset_events or [] if isinstance(event, dg.AssetObservation)]
    assert [event.asset_key.to_user_string() for event in observed] == ["cdc/shop/store"]
    metadata = {key: value.value for key, value in observed[0].metadata.items()}
    assert (metadata["put"], metadata["ack"], metadata["backlog_rows"], metadata["state"]) == (2, 0, 40, "running")
    assert again.asset_events == []


def test_observations_keep_their_distance(instance: dg.DagsterInstance) -> None:
    """A store whose rows come and go at every tick is observed as seldom as a table; one whose condition changes, every
    ten seconds at most."""
    canal = MemoryCanal(batches=2)
    first = tick(canal, instance)
    canal.put = 3

    soon = tick(canal, instance, cursor=first.cursor)
    aged = json.dumps(json.loads(first.cursor or "") | {"at": 0})
    later = tick(canal, instance, cursor=aged)

    assert (soon.asset_events, len(later.asset_events or [])) == ([], 1)
    for seconds, events in ((5, 0), (11, 1)):
        canal.stopped = [StoppedTable("shop.users", "paused", "Resume it.", position(0))]
        ago = json.dumps(json.loads(later.cursor or "") | {"at": time.time() - seconds})
        assert len(tick(canal, instance, cursor=ago).asset_events or []) == events


def test_a_failed_destination_is_red_with_its_remedy(instance: dg.DagsterInstance) -> None:
    """The check of the store and the reason not to run show the error of the service."""
    canal = MemoryCanal()
    canal.error = ErrorReport("SourceError", "binlog purged", "mysql-bin.000001:4", "Rewind.")

    result = tick(canal, instance)

    checks = [event for event in result.asset_events or [] if isinstance(event, dg.AssetCheckEvaluation)]
    assert [(check.passed, check.severity) for check in checks] == [(False, dg.AssetCheckSeverity.ERROR)]
    assert said(result) == "shop failed: binlog purged at mysql-bin.000001:4. Rewind."


def test_a_service_that_is_away_is_a_skip_reason(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick goes on; the reason has place and remedy."""
    canal = MemoryCanal()

    def away() -> Status:
        raise unavailable("http://127.0.0.1:1", "connection refused")

    monkeypatch.setattr(canal, "status", away)

    assert said(tick(canal, instance)).startswith(
        "the service is unavailable: the service does not answer: connection refused at http"
    )


def test_with_a_schedule_the_sensor_only_watches(instance: dg.DagsterInstance) -> None:
    """Dead claims still go back; runs start by the clock, also after one that somebody cancelled."""
    canal = MemoryCanal(batches=1)
    canal.get_without_ack(10, owner=a_run(instance, dg.DagsterRunStatus.CANCELED))

    result = tick(canal, instance, trigger=Trigger(kind="schedule"))

    assert said(result) == "20 rows are waiting for the schedule"
    assert canal.rollbacks == 1


def test_what_a_run_by_the_clock_left_does_not_wait_for_the_next_time(instance: dg.DagsterInstance) -> None:
    """It was cut short, or failed; the next one brings the rows of before the same time. Then the clock starts runs."""
    canal, schedule = MemoryCanal(batches=2), Trigger(kind="schedule", minimum_rows=1000)
    cut = a_run(instance, dg.DagsterRunStatus.SUCCESS)
    instance.add_run_tags(cut, {LEFT_TAG: "1700000000000"})
    (request,) = tick(canal, instance, trigger=schedule).run_requests
    assert request.tags[UNTIL_TAG] == "1700000000000"

    failed = a_run(instance, dg.DagsterRunStatus.FAILURE)
    instance.add_run_tags(failed, {UNTIL_TAG: request.tags[UNTIL_TAG]})
    (request,) = tick(canal, instance, trigger=schedule).run_requests
    assert request.tags[UNTIL_TAG] == "1700000000000"

    a_run(instance, dg.DagsterRunStatus.SUCCESS)
    assert said(tick(canal, instance, trigger=schedule)) == "40 rows are waiting for the schedule"


@pytest.mark.parametrize("word", ["failed", "canceled"])
def test_an_ended_run_gives_back_what_it_held(instance: dg.DagsterInstance, word: str) -> None:
    """By owner, and only of its destination; a second time has no effect."""
    canal = MemoryCanal(batches=2)
    run = instance.get_run_by_id(a_run(instance, dg.DagsterRunStatus.FAILURE))
    assert run is not None
    canal.get_without_ack(10, owner=run.run_id)
    event = dg.DagsterEvent("PIPELINE_FAILURE", "drain_shop")
    resources = {"canal_shop": canal, "canal_other": canal}
    context = dg.build_run_status_sensor_context("ended", event, instance, run, resources=resources)

    give_back(context, {"other": canal.connect}, word)
    assert canal.rollbacks == 0
    for _ in range(2):
        give_back(context, {"other": MemoryCanal().connect, "shop": canal.connect}, word)
    assert canal.reasons == [f"run {run.run_id} {word}"]


def test_one_pair_of_sensors_is_for_all_destinations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's tag says whose service is asked. One that is away is an error of the tick."""
    monkeypatch.setenv("SLUICE_DEFS", str(tmp_path))
    for name in ("one", "two"):
        service = {"http": f"http://127.0.0.1:{free_port()}"}
        write_component(
            tmp_path / name / "defs.yaml",
            {
                "destination": name,
                "lake": str(tmp_path / "lakes" / name),
                "tables": ["shop.orders"],
                "service": service,
            },
        )
    names = [sensor.name for sensor in defs().sensors or []]
    assert sorted(name for name in names if "backlog" not in name) == [
        "sluice_canceled_runs",
        "sluice_failed_runs",
        "sluice_old_runs",
    ]
    instance = dg.DagsterInstance.ephemeral()
    run = instance.create_run_for_job(drain_shop, status=dg.DagsterRunStatus.FAILURE, tags={"cdc/destination": "two"})
    event = dg.DagsterEvent("PIPELINE_FAILURE", "drain_shop")
    sensor = next(one for one in defs().sensors or [] if one.name == "sluice_failed_runs")
    assert isinstance(sensor, dg.RunStatusSensorDefinition)
    with pytest.raises(ServiceUnavailable):
        sensor(dg.build_run_status_sensor_context("sluice_failed_runs", event, instance, run))
