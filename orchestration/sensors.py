"""Sensors of one destination: the backlog that starts runs, and runs that ended badly.

The backlog sensor reads, ends runs whose process is gone, and gives back claims whose run is dead; it never claims,
since a tick that times out goes on in the background. Three ways lead a dead run's claim home, each naming the owner it
means: the drain's own `with`, the two sensors on ended runs, and this reconciliation. Behind them all stands the
claim's lease.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_core.client.connector import Connector
from cdc_core.client.failures import ServiceUnavailable, error_from
from cdc_core.errors import SluiceError
from orchestration import backlog, processes
from orchestration.checks import lag_evaluation
from orchestration.metadata import of_store
from orchestration.names import DESTINATION_TAG
from orchestration.resources import CanalResource
from orchestration.settings import Settings

_OBSERVE_SECONDS = 10.0  # no more often than this, and only what changed: event logs are never pruned
_RECENT_RUNS = 12


def backlog_sensor(settings: Settings, job: UnresolvedAssetJobDefinition) -> dg.SensorDefinition:
    """Level-triggered: looks every few seconds, whatever happened before. With a schedule it only watches."""
    names = settings.names

    @dg.sensor(
        name=f"cdc_{names.safe}_backlog",
        job=job,
        minimum_interval_seconds=settings.trigger.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={names.canal},
        description=f"Starts a run when {settings.destination} has a backlog; gives back claims of dead runs.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        for run_id in processes.fail_gone(context.instance, names.run_tags):
            context.log.warning(f"run {run_id} has no process any more: failed")
        canal: CanalResource = getattr(context.resources, names.canal)
        try:
            with canal.connect() as connector:
                return _tick(context, settings, connector, time.time())
        except ServiceUnavailable as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(f"service away: {error}"))
        except SluiceError as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(f"the service refuses: {error}"))

    return sensor


def _tick(context: dg.SensorEvaluationContext, settings: Settings, connector: Connector, now: float) -> dg.SensorResult:
    status = connector.status()
    if status["state"] == "stopped" and status.get("note"):
        return dg.SensorResult(skip_reason=dg.SkipReason(f"{settings.destination} was {status['note']}"))
    state = connector.client_state()
    dead = backlog.dead_owners(state, lambda run_id: _is_alive(context.instance, run_id))
    for owner in dead:
        given = connector.rollback(owner=owner, reason=f"run {owner} has ended")
        context.log.info(f"gave back {given} of run {owner}, which has ended")
    if dead:
        state = connector.client_state()
    events, cursor = _observe(settings, status, state, context.cursor, now)
    decision = _decide(context, settings, status, state, now)
    if isinstance(decision, dg.SkipReason):
        return dg.SensorResult(skip_reason=decision, asset_events=events, cursor=cursor)
    return dg.SensorResult(run_requests=[decision], asset_events=events, cursor=cursor)


def _decide(
    context: dg.SensorEvaluationContext,
    settings: Settings,
    status: Mapping[str, Any],
    state: dict[str, Any],
    now: float,
) -> dg.RunRequest | dg.SkipReason:
    if settings.trigger.kind == "schedule":
        return dg.SkipReason(f"{state['backlog_rows']} rows are waiting for the schedule")
    filters = dg.RunsFilter(tags=settings.names.run_tags)
    runs = backlog.runs_of(context.instance.get_run_records(filters, limit=_RECENT_RUNS))
    decision = backlog.decide(settings.destination, state, status.get("lag_seconds"), runs, settings.trigger, now)
    error = status.get("error")
    if isinstance(decision, dg.SkipReason) and error:
        return dg.SkipReason(f"{settings.destination} {_word(status)}: {error_from(error)}")
    return decision


def _word(status: Mapping[str, Any]) -> str:
    return "failed" if status["state"] == "failed" else "is in trouble"


def _observe(
    settings: Settings, status: Mapping[str, Any], state: Mapping[str, Any], cursor: str | None, now: float
) -> tuple[list[dg.AssetObservation | dg.AssetCheckEvaluation], str]:
    """An observation of the store when it changed, its lag check when that turned; and the sensor's next cursor."""
    before: dict[str, Any] = json.loads(cursor) if cursor else {}
    check = lag_evaluation(settings, status)
    verdict = [check.passed, check.description if status.get("error") else ""]
    seen = [status["state"], state["put"], state["get"], state["ack"], state["rollbacks"], len(state["stopped"])]
    after = dict(before)
    events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
    if seen != before.get("seen") and now - before.get("at", 0.0) >= _OBSERVE_SECONDS:
        events.append(dg.AssetObservation(settings.names.store, metadata=of_store(status, state)))
        after |= {"seen": seen, "at": now}
    if verdict != before.get("lag"):
        events.append(check)
        after["lag"] = verdict
    return events, json.dumps(after)


def ended_sensors(settings: Settings) -> list[dg.SensorDefinition]:
    """Give back at once what a failed or a cancelled run held."""
    return [
        _ended_sensor(settings, dg.DagsterRunStatus.FAILURE, "failed"),
        _ended_sensor(settings, dg.DagsterRunStatus.CANCELED, "canceled"),
    ]


def _ended_sensor(settings: Settings, status: dg.DagsterRunStatus, word: str) -> dg.SensorDefinition:
    names = settings.names

    def ended(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        return give_back(context, settings, word)

    return dg.RunStatusSensorDefinition(
        name=f"cdc_{names.safe}_{word}",
        run_status=status,
        run_status_sensor_fn=ended,
        minimum_interval_seconds=settings.trigger.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={names.canal},
        description=f"Gives back what a run of {settings.destination} held when it {word}.",
    )


def give_back(context: dg.RunStatusSensorContext, settings: Settings, word: str) -> dg.SkipReason | None:
    """What the run held, by its own name: nothing when it was given back before."""
    run = context.dagster_run
    if run.tags.get(DESTINATION_TAG) != settings.destination:
        return dg.SkipReason("a run of something else")
    canal: CanalResource = getattr(context.resources, settings.names.canal)
    with canal.connect() as connector:
        given = connector.rollback(owner=run.run_id, reason=f"run {run.run_id} {word}")
    context.log.info(f"gave back {given or 'nothing'} of run {run.run_id}, which {word}")
    return None


def schedule(settings: Settings, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The alternative to the sensor: runs by the clock."""
    return dg.ScheduleDefinition(
        name=f"cdc_{settings.names.safe}_schedule",
        job=job,
        cron_schedule=settings.trigger.cron,
        tags=settings.names.run_tags,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def _is_alive(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is not None and not run.is_finished
