"""The sensor that looks at a destination's backlog: it starts runs, and cleans up after dead ones.

It ends runs whose process is gone, gives back claims whose run is dead, and observes the store. It never claims,
because a tick that times out goes on in the background. A dead run's claim is given back in three ways, each by its
owner's name: by the drain's own `with`, by the sensors on ended runs, and here. If all fail, the claim's lease ends.
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
from orchestration.internals import kept_instance
from orchestration.names import UNTIL_TAG
from orchestration.sensors.decision import dead_owners, decide, drained, waits_for
from orchestration.sensors.round import Connect, Round
from orchestration.sensors.runs import has_ended, recent
from orchestration.settings import Settings
from orchestration.store import lag_evaluation, store_metadata

_OBSERVE_SECONDS = 10.0  # between observations, and only of what changed: Dagster never prunes event logs


def backlog_sensor(settings: Settings, job: dg.JobDefinition, connect: Connect, shared: Round) -> dg.SensorDefinition:
    """Level-triggered: each tick looks at the service's state, whatever happened before. With a schedule the sensor
    only goes on with what its last run left. It uses no resource of Dagster's, which would make them at each tick."""
    names = settings.names

    @dg.sensor(
        name=f"cdc_{names.safe}_backlog",
        job=job,
        minimum_interval_seconds=settings.trigger.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Starts a run when {settings.destination} has a backlog; gives back claims of dead runs.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance, now = kept_instance(context), time.time()
        shared.fail_gone(context, instance)
        try:
            known = shared.status(settings.destination, connect)
            if known is not None and (rests := _at_rest(settings, known, context.cursor, now)):
                return rests
            with connect() as connector:
                return _tick(context, instance, settings, connector, now)
        except ServiceUnavailable as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(f"the service is unavailable: {error}"))
        except SluiceError as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(f"the service refuses: {error}"))

    return sensor


def _at_rest(settings: Settings, status: Status, cursor: str | None, now: float) -> dg.SensorResult | None:
    """Returns the sensor's result for a destination that has nothing to do, or None if it must be looked at."""
    client = status.client(settings.client_id)
    if client is None or status.state != "running" or status.error is not None or settings.stays:
        return None
    if client.claims or client.waiting or waits_for(client, status.clients):
        return None
    events, seen = _observe(settings, status, client, Seen.from_cursor(cursor), now)
    reason = dg.SkipReason(drained(client))
    return dg.SensorResult(skip_reason=reason, asset_events=events, cursor=replace(seen, waits=None).cursor)


def _tick(
    context: dg.SensorEvaluationContext,
    instance: dg.DagsterInstance,
    settings: Settings,
    connector: Connector,
    now: float,
) -> dg.SensorResult:
    status = connector.status()
    if status.state == "stopped" and status.note:
        return dg.SensorResult(skip_reason=dg.SkipReason(f"{settings.destination} was {status.note}"))
    client = connector.subscribe()
    dead = dead_owners(client, lambda run_id: has_ended(instance, run_id))
    for owner in dead:
        batches = connector.rollback(owner=owner, reason=f"run {owner} has ended")
        context.log.info(f"gave back {batches} of run {owner}, which has ended")
    if dead:
        client = connector.client_status()
    before = Seen.from_cursor(context.cursor)
    events, seen = _observe(settings, status, client, before, now)
    seen = replace(seen, waits=_waits(client, before, now))
    decision = _decide(context, instance, settings, status, client, seen.age(now), now)
    if isinstance(decision, dg.SkipReason):
        return dg.SensorResult(skip_reason=decision, asset_events=events, cursor=seen.cursor)
    return dg.SensorResult(run_requests=[decision], asset_events=events, cursor=seen.cursor)


def _decide(
    context: dg.SensorEvaluationContext,
    instance: dg.DagsterInstance,
    settings: Settings,
    status: Status,
    client: ClientStatus,
    age: float,
    now: float,
) -> dg.RunRequest | dg.SkipReason:
    runs = recent(instance, settings.names.run_tags)
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
    `waits`: how far the client had acked when rows were found to wait after that, and when."""

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
    """How far the client had acked when its rows began to wait, and when; now, if the clock was set back."""
    if not client.waiting:
        return None
    known = before.waits
    return known if known and known[0] == client.ack and known[1] <= now else [client.ack, now]


def _observe(
    settings: Settings, status: Status, client: ClientStatus, before: Seen, now: float
) -> tuple[list[dg.AssetObservation | dg.AssetCheckEvaluation], Seen]:
    """Returns an observation of the store when it changed, its check when the verdict changed; and what was seen. Rows
    that come and go are reported as seldom as a table's."""
    check = lag_evaluation(settings, status)
    condition = [status.state, client.generation, len(client.stopped)]
    store = [*condition, client.put, client.get, client.ack]
    lag = [check.passed, check.description if status.error else ""]
    seen, at = before.seen, before.at
    events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
    moved = seen is not None and seen[: len(condition)] == condition
    apart = max(_OBSERVE_SECONDS, settings.report_seconds) if moved else _OBSERVE_SECONDS
    if store != seen and now - at >= apart:
        events.append(dg.AssetObservation(settings.names.store, metadata=store_metadata(status, client)))
        seen, at = store, now
    if lag != before.lag:
        events.append(check)
    return events, replace(before, seen=seen, at=at, lag=lag)
