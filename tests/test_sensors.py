"""Sensors: when a run starts, whose claims go back, what is said, over the service's double."""

from __future__ import annotations

import json
import uuid
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from cdc_core.client.failures import unavailable
from orchestration import backlog, sensors
from orchestration.backlog import Runs
from orchestration.settings import Settings, Trigger
from tests.canal_double import MemoryCanal
from tests.dagster_runs import a_run, drain_shop


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def tick(
    canal: MemoryCanal, instance: dg.DagsterInstance, cursor: str | None = None, **settings: Any
) -> SensorExecutionData:
    """One tick of the backlog sensor."""
    sensor = sensors.backlog_sensor(Settings(destination="shop", lake="/lake", **settings), drain_shop)
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources={"canal_shop": canal}) as context:
        return sensor.evaluate_tick(context)


def said(result: SensorExecutionData) -> str:
    return result.skip_message or ""


def state(**changes: Any) -> dict[str, Any]:
    return MemoryCanal(batches=3).client_state() | changes


def test_a_backlog_starts_a_run_of_its_destination(instance: dg.DagsterInstance) -> None:
    """One request, keyed by what must change before the next."""
    result = tick(MemoryCanal(batches=2), instance)

    assert [request.run_key for request in result.run_requests] == ["shop:0:0:first"]


def test_a_drained_store_is_told_with_its_position(instance: dg.DagsterInstance) -> None:
    """The skip reason reads like a sentence."""
    canal = MemoryCanal(batches=2)
    canal.acked = canal.get = 2

    assert said(tick(canal, instance)) == "drained at mysql-bin.000007:2000"


def test_one_stopped_by_hand_is_let_be(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped with the reason; its client is not asked, which would be refused."""
    canal = MemoryCanal(batches=2)
    status = canal.status() | {"state": "stopped", "note": "stopped by hand"}
    monkeypatch.setattr(canal, "status", lambda: status)
    monkeypatch.setattr(canal, "client_state", lambda: 1 / 0)

    assert said(tick(canal, instance)) == "shop was stopped by hand"


def test_a_batch_in_flight_waits_for_its_run(instance: dg.DagsterInstance) -> None:
    """A live run's claim is left alone."""
    canal, run_id = MemoryCanal(batches=2), a_run(instance, dg.DagsterRunStatus.STARTED)
    canal.get_without_ack(10, owner=run_id)

    assert said(tick(canal, instance)) == f"batch 1 in flight by run {run_id[:8]}"
    assert canal.rollbacks == 0


def test_a_starting_run_is_not_requested_twice(instance: dg.DagsterInstance) -> None:
    """One run at a time."""
    run_id = a_run(instance, dg.DagsterRunStatus.STARTING)

    assert said(tick(MemoryCanal(batches=1), instance)) == f"run {run_id[:8]} is starting"


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, None])
def test_a_dead_runs_claim_goes_back_and_a_run_starts(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus | None
) -> None:
    """Failed, cancelled or unknown to this instance: its batch is given back by its owner's name."""
    canal = MemoryCanal(batches=2)
    owner = a_run(instance, status) if status else str(uuid.uuid4())
    canal.get_without_ack(10, owner=owner)

    result = tick(canal, instance)

    assert canal.reasons == [f"run {owner} has ended"]
    assert canal.held == []
    assert result.run_requests or "next try" in said(result)


def test_who_is_no_run_is_left_to_its_lease(instance: dg.DagsterInstance) -> None:
    """A claim made by hand is not given back by the sensor."""
    canal = MemoryCanal(batches=2)
    canal.get_without_ack(10, owner="by hand")

    assert said(tick(canal, instance)) == "batch 1 in flight by run by hand"
    assert canal.rollbacks == 0


def test_the_run_key_changes_with_ack_rollback_and_run() -> None:
    """Dagster remembers a key for ever, also that of a failed run: each reason to run again changes it."""
    first = backlog.run_key("shop", state(), Runs())
    others = [
        backlog.run_key("shop", state(ack=1), Runs()),
        backlog.run_key("shop", state(rollbacks=1), Runs()),
        backlog.run_key("shop", state(), Runs(last="0123456789")),
    ]

    assert first == "shop:0:0:first"
    assert len({first, *others}) == 4


def test_failed_runs_are_tried_again_ever_later() -> None:
    """A run that fails before it claims anything must neither be forgotten nor be started every tick."""
    waits = [Runs(last="r", last_ended=100.0, failures=n).next_try - 100.0 for n in (1, 2, 3, 20)]
    assert waits == [5.0, 10.0, 20.0, 300.0]

    failed = Runs(last="0123456789", last_ended=100.0, failures=2)
    early = backlog.decide("shop", state(), 1.0, failed, Trigger(), 103.0)
    late = backlog.decide("shop", state(), 1.0, failed, Trigger(), 111.0)

    assert isinstance(early, dg.SkipReason)
    assert early.skip_message == "failed 2 times, last in run 01234567; next try in 7 s"
    assert isinstance(late, dg.RunRequest)


def test_failures_are_counted_since_the_last_success(instance: dg.DagsterInstance) -> None:
    """As Dagster's own records tell them, the newest first; a cancelled run is no failure."""
    for status in ("FAILURE", "SUCCESS", "FAILURE", "CANCELED", "FAILURE"):
        last = a_run(instance, dg.DagsterRunStatus(status))

    runs = backlog.runs_of(instance.get_run_records(limit=10))

    assert (runs.failures, runs.last, runs.active) == (2, last, None)


def test_a_run_that_acked_before_it_failed_does_not_lengthen_the_pause(instance: dg.DagsterInstance) -> None:
    """It got somewhere: runs that fail in the tenth batch each time must not come five minutes apart."""
    for to in ("", "mysql-bin.000001:4", "mysql-bin.000001:99"):
        a_run(instance, dg.DagsterRunStatus.FAILURE, **({"to": to} if to else {}))

    assert backlog.runs_of(instance.get_run_records(limit=10)).failures == 1

    a_run(instance, dg.DagsterRunStatus.FAILURE)

    assert backlog.runs_of(instance.get_run_records(limit=10)).failures == 2


def test_a_small_backlog_waits_until_it_is_old() -> None:
    """`minimum_rows` gathers, `freshness_seconds` bounds the wait."""
    trigger = Trigger(minimum_rows=1_000, freshness_seconds=60)

    young = backlog.decide("shop", state(), 10.0, Runs(), trigger, 0.0)
    old = backlog.decide("shop", state(), 61.0, Runs(), trigger, 0.0)

    assert isinstance(young, dg.SkipReason)
    assert young.skip_message == "60 rows are waiting; a run starts at 1000"
    assert isinstance(old, dg.RunRequest)


def test_the_store_is_observed_when_it_changed(instance: dg.DagsterInstance) -> None:
    """Event logs are never pruned: no change, no event."""
    canal = MemoryCanal(batches=2)
    first = tick(canal, instance)
    again = tick(canal, instance, cursor=first.cursor)

    observed = [event for event in first.asset_events or [] if isinstance(event, dg.AssetObservation)]
    assert [event.asset_key.to_user_string() for event in observed] == ["cdc/shop/store"]
    told = {key: value.value for key, value in observed[0].metadata.items()}
    assert (told["put"], told["ack"], told["backlog_rows"], told["state"]) == (2, 0, 40, "running")
    assert again.asset_events == []


def test_observations_keep_their_distance(instance: dg.DagsterInstance) -> None:
    """A store that changes at every tick is observed every ten seconds at most."""
    canal = MemoryCanal(batches=2)
    first = tick(canal, instance)
    canal.put = 3

    soon = tick(canal, instance, cursor=first.cursor)
    aged = json.dumps(json.loads(first.cursor or "") | {"at": 0})
    later = tick(canal, instance, cursor=aged)

    assert (soon.asset_events, len(later.asset_events or [])) == ([], 1)


def test_a_failed_destination_is_red_with_its_remedy(instance: dg.DagsterInstance) -> None:
    """The service's error is shown at the store's check and as the reason not to run."""
    canal = MemoryCanal()
    canal.error = {"error": "SourceError", "message": "binlog purged", "place": "mysql-bin.000001:4", "hint": "Rewind."}

    result = tick(canal, instance)

    checks = [event for event in result.asset_events or [] if isinstance(event, dg.AssetCheckEvaluation)]
    assert [(check.passed, check.severity) for check in checks] == [(False, dg.AssetCheckSeverity.ERROR)]
    assert said(result) == "shop failed: binlog purged at mysql-bin.000001:4. Rewind."


def test_a_service_that_is_away_is_said_not_raised(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick goes on; the reason names place and remedy."""
    canal = MemoryCanal()

    def away() -> dict[str, Any]:
        raise unavailable("http://127.0.0.1:1", "connection refused")

    monkeypatch.setattr(canal, "status", away)

    assert said(tick(canal, instance)).startswith(
        "service away: the service does not answer: connection refused at http"
    )


def test_with_a_schedule_the_sensor_only_watches(instance: dg.DagsterInstance) -> None:
    """Dead claims still go back; runs start by the clock."""
    canal = MemoryCanal(batches=1)
    canal.get_without_ack(10, owner=str(uuid.uuid4()))

    result = tick(canal, instance, trigger=Trigger(kind="schedule"))

    assert said(result) == "20 rows are waiting for the schedule"
    assert canal.rollbacks == 1


@pytest.mark.parametrize("word", ["failed", "canceled"])
def test_an_ended_run_gives_back_what_it_held(instance: dg.DagsterInstance, word: str) -> None:
    """By owner, and only of its own destination; twice does no more than once."""
    canal = MemoryCanal(batches=2)
    run = instance.get_run_by_id(a_run(instance, dg.DagsterRunStatus.FAILURE))
    assert run is not None
    canal.get_without_ack(10, owner=run.run_id)
    event = dg.DagsterEvent("PIPELINE_FAILURE", "drain_shop")
    resources = {"canal_shop": canal, "canal_other": canal}
    context = dg.build_run_status_sensor_context("ended", event, instance, run, resources=resources)

    sensors.give_back(context, Settings(destination="other", lake="/lake"), word)
    assert canal.rollbacks == 0
    for _ in range(2):
        sensors.give_back(context, Settings(destination="shop", lake="/lake"), word)
    assert canal.reasons == [f"run {run.run_id} {word}"]
