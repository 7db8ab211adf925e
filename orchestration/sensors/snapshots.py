"""The sensor that starts snapshots by itself, as `snapshot` in defs.yaml says: of tables whose first rows the lake does
not have; with `when_needed` also of those that the stream cannot complete, and of all where the source has purged the
place to go on."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import Status
from cdc_core.errors import SluiceError
from orchestration.first_rows import FirstRows, waiting
from orchestration.internals import kept_instance
from orchestration.jobs.by_hand import job_name, run_config, tag_of
from orchestration.resources import LakeResource
from orchestration.sensors.purged import begin_anew
from orchestration.sensors.round import Connect, Round
from orchestration.sensors.runs import Runs, hash_of, recent
from orchestration.settings import Settings
from orchestration.verbs.orders import Snapshot

_INTERVAL = 15  # seconds: a snapshot takes longer, and many destinations have many sensors
_LOOK_SECONDS = 30.0
_NOTHING = 0, -1
_NONE = "no table needs a snapshot"
_CURSOR = "[]"  # in the place of what older versions kept there; Dagster keeps a cursor that is not replaced


def snapshot_sensor(
    settings: Settings,
    job: dg.JobDefinition,
    rewind: dg.JobDefinition,
    connect: Connect,
    lake: LakeResource,
    shared: Round,
) -> dg.SensorDefinition:
    """What it knows of the lake's tables stays in its process: a cursor is written at each tick, and kept with it. It
    uses no resource of Dagster's, which would make them at each tick."""
    names, known = settings.names, Known()

    @dg.sensor(
        name=f"snapshot_{names.safe}_needed",
        jobs=[job, rewind],
        minimum_interval_seconds=max(_INTERVAL, settings.trigger.interval_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Starts snapshots of tables of {settings.destination}: `snapshot: {settings.snapshot}`.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance = kept_instance(context)
        shared.fail_gone(context, instance)
        if lake.conf is None:
            return _skipped("how to reach the source is unknown: set `conf` in defs.yaml")
        try:
            status = shared.status(settings.destination, connect)
            if status is not None and _at_rest(settings, status, known):
                return _skipped(_NONE)
            with connect() as connector:
                return _tick(context, instance, settings, connector, lake, known)
        except SluiceError as error:
            return _skipped(str(error))

    return sensor


@dataclass(slots=True)
class Known:
    """The tables that were in the lake, and when all that the service captures were looked at, which is a large answer:
    `seen` is what the service had read by then. A table that is made meanwhile has no rows yet, or the drain meets it.
    """

    there: set[str] = field(default_factory=set)
    looked: float = -math.inf
    seen: tuple[int, int] = _NOTHING

    def is_due(self, client: ClientStatus) -> bool:
        """Whether to look again: not if the service goes on as it was, and has read nothing since."""
        return self.seen != _read_by(client) and time.monotonic() - self.looked >= _LOOK_SECONDS

    def note(self, client: ClientStatus) -> None:
        self.looked, self.seen = time.monotonic(), _read_by(client)


def _read_by(client: ClientStatus) -> tuple[int, int]:
    return client.generation, client.put


def _at_rest(settings: Settings, status: Status, known: Known) -> bool:
    """Whether a destination has nothing to do here."""
    client = status.client(settings.client_id)
    if client is None or status.state != "running" or status.error is not None or known.is_due(client):
        return False
    return not waiting(client, time.time(), complete=settings.snapshot == "when_needed")


def _tick(
    context: dg.SensorEvaluationContext,
    instance: dg.DagsterInstance,
    settings: Settings,
    connector: Connector,
    lake: LakeResource,
    known: Known,
) -> dg.SensorResult:
    status = connector.status()
    if settings.snapshot == "when_needed" and (
        again := begin_anew(context, instance, settings, connector, status, time.time())
    ):
        if isinstance(again, dg.SkipReason):
            return dg.SensorResult(skip_reason=again, cursor=_CURSOR)
        context.log.warning(f"all tables are reloaded: {status.error and status.error.message}")
        known.looked, known.seen = -math.inf, _NOTHING
        return dg.SensorResult(run_requests=[again], cursor=_CURSOR)
    client = connector.subscribe()
    if known.is_due(client) and not client.backlog_ddl:  # a statement that waits may make a table
        _begin(context, connector, client, lake, known)
        client = connector.client_status()
    due = waiting(client, time.time(), complete=settings.snapshot == "when_needed")
    if not due:
        return _skipped(_NONE)
    runs = recent(instance, {tag_of(Snapshot): settings.destination})
    return _result(decide(settings, due, runs, time.time()))


def _begin(
    context: dg.SensorEvaluationContext, connector: Connector, client: ClientStatus, lake: LakeResource, known: Known
) -> None:
    """Begins the first snapshots of the tables that the lake does not have."""
    first, at = FirstRows(connector, lake.has, known.there), client.cursor or connector.status().position
    if at is None:
        return
    for name in first.begin(connector.tables(), at):
        context.log.info(f"{name} is not in the lake: its snapshot begins")
    known.note(client)


def decide(settings: Settings, due: Sequence[str], runs: Runs, now: float) -> dg.RunRequest | dg.SkipReason:
    """One run at a time, of all tables that are due; later after each failure."""
    if not due:
        return dg.SkipReason(_NONE)
    if reason := runs.held_up("snapshot", now):
        return dg.SkipReason(reason)
    job = job_name(Snapshot, settings)
    return dg.RunRequest(
        job_name=job,
        run_key=f"{settings.destination}:{hash_of(','.join(due))}:{runs.key}",
        run_config=run_config(job, tables=list(due), reason=f"snapshot: {settings.snapshot}"),
    )


def _skipped(reason: str) -> dg.SensorResult:
    return _result(dg.SkipReason(reason))


def _result(decision: dg.RunRequest | dg.SkipReason) -> dg.SensorResult:
    if isinstance(decision, dg.SkipReason):
        return dg.SensorResult(skip_reason=decision, cursor=_CURSOR)
    return dg.SensorResult(run_requests=[decision], cursor=_CURSOR)
