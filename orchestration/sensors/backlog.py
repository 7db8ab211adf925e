"""The sensor that looks at a destination's backlog: it starts runs, and cleans up after dead ones.

It ends runs whose process is gone, gives back claims whose run is dead, and observes the store. It never claims,
because a tick that times out goes on in the background. A dead run's claim is given back in three ways, each by its
owner's name: by the drain's own `with`, by the sensors on ended runs, and here. The claim's lease is behind them all.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import Status
from cdc_core.errors import ServiceUnavailable, SluiceError
from orchestration import processes
from orchestration.names import UNTIL_TAG
from orchestration.resources import CanalResource
from orchestration.sensors.decision import dead_owners, decide, waits_for
from orchestration.sensors.runs import has_ended, summarize
from orchestration.settings import Settings
from orchestration.store import lag_evaluation, store_metadata

_OBSERVE_SECONDS = 10.0  # between observations, and only of what changed: Dagster never prunes event logs
_RECENT_RUNS = 12


def backlog_sensor(settings: Settings, job: dg.JobDefinition) -> dg.SensorDefinition:
    """Level-triggered: each tick looks at the service's state, whatever happened before. With a schedule the sensor
    only goes on with what its last run left."""
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
        for tags in (names.run_tags, names.job_tags):
            for run_id in processes.fail_gone(context.instance, tags):
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
    if status.state == "stopped" and status.note:
        return dg.SensorResult(skip_reason=dg.SkipReason(f"{settings.destination} was {status.note}"))
    client = connector.subscribe()
    dead = dead_owners(client, lambda run_id: has_ended(context.instance, run_id))
    for owner in dead:
        batches = connector.rollback(owner=owner, reason=f"run {owner} has ended")
        context.log.info(f"gave back {batches} of run {owner}, which has ended")
    if dead:
        client = connector.client_status()
    before = Seen.from_cursor(context.cursor)
    events, seen = _observe(settings, status, client, before, now)
    seen = replace(seen, waits=_waits(client, before, now))
    decision = _decide(context, settings, status, client, seen.age(now), now)
    if isinstance(decision, dg.SkipReason):
        return dg.SensorResult(skip_reason=decision, asset_events=events, cursor=seen.cursor)
    return dg.SensorResult(run_requests=[decision], asset_events=events, cursor=seen.cursor)


def _decide(
    context: dg.SensorEvaluationContext,
    settings: Settings,
    status: Status,
    client: ClientStatus,
    age: float,
    now: float,
) -> dg.RunRequest | dg.SkipReason:
    filters = dg.RunsFilter(tags=settings.names.run_tags)
    runs = summarize(context.instance.get_run_records(filters, limit=_RECENT_RUNS))
    starts, by_clock = settings.starts, settings.starts.kind == "schedule"
    if by_clock and not (runs.left or runs.active):
        return dg.SkipReason(f"{client.backlog_rows} rows are waiting for the schedule")
    if by_clock:  # what the last run left is not made to wait for the next time
        starts = starts.model_copy(update={"minimum_rows": 1})
    standing = settings.stays and status.error is None
    lag = max(status.lag_seconds or 0.0, age)  # by the source's clock, which may be ahead, and by this one's
    decision = decide(settings.destination, client, lag, runs, starts, now, standing=standing)
    if by_clock and isinstance(decision, dg.RunRequest):
        decision = dg.RunRequest(run_key=decision.run_key, tags={UNTIL_TAG: runs.left})
    if isinstance(decision, dg.SkipReason) and (waits := waits_for(client, status.clients)):
        context.log.warning(waits)
        return dg.SkipReason(waits)
    if isinstance(decision, dg.SkipReason) and status.error is not None:
        word = "failed" if status.state == "failed" else "is in trouble"
        return dg.SkipReason(f"{settings.destination} {word}: {status.error.as_error()}")
    return decision


@dataclass(frozen=True, slots=True)
class Seen:
    """What the sensor observed last, kept in its cursor: the store and when, and the verdict of the store's check.
    `waits`: how far the client had acked when rows were found to wait behind that, and when."""

    seen: list[Any] | None = None
    at: float = 0.0
    lag: list[Any] | None = None
    waits: list[float] | None = None

    def age(self, now: float) -> float:
        """The seconds for which rows have waited, as far as the sensor saw."""
        return now - self.waits[1] if self.waits else 0.0

    @classmethod
    def from_cursor(cls, cursor: str | None) -> Seen:
        return cls(**json.loads(cursor)) if cursor else cls()

    @property
    def cursor(self) -> str:
        return json.dumps(asdict(self))


def _waits(client: ClientStatus, before: Seen, now: float) -> list[float] | None:
    """Since when; anew where the clock was set back."""
    if not client.waiting:
        return None
    known = before.waits
    return known if known and known[0] == client.ack and known[1] <= now else [client.ack, now]


def _observe(
    settings: Settings, status: Status, client: ClientStatus, before: Seen, now: float
) -> tuple[list[dg.AssetObservation | dg.AssetCheckEvaluation], Seen]:
    """An observation of the store when it changed, its check when the verdict changed; and what was seen."""
    check = lag_evaluation(settings, status)
    store = [status.state, client.put, client.get, client.ack, client.generation, len(client.stopped)]
    lag = [check.passed, check.description if status.error else ""]
    seen, at = before.seen, before.at
    events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
    if store != seen and now - at >= _OBSERVE_SECONDS:
        events.append(dg.AssetObservation(settings.names.store, metadata=store_metadata(status, client)))
        seen, at = store, now
    if lag != before.lag:
        events.append(check)
    return events, replace(before, seen=seen, at=at, lag=lag)
