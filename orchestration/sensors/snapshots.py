"""The sensor that starts snapshots by itself, as `snapshot` in defs.yaml says: of tables whose first rows the lake does
not have; with `when_needed` also of those that the stream cannot complete, and of all where the source has purged the
place to go on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.destination.client_status import ClientStatus
from cdc_core.errors import SluiceError
from orchestration import processes
from orchestration.first_rows import FirstRows, waiting
from orchestration.jobs.snapshot import SNAPSHOT_TAG
from orchestration.resources import CanalResource, LakeResource
from orchestration.sensors.purged import begin_anew
from orchestration.sensors.runs import Runs, summarize
from orchestration.settings import Settings

_RECENT_RUNS = 12


def snapshot_sensor(settings: Settings, job: dg.JobDefinition, rewind: dg.JobDefinition) -> dg.SensorDefinition:
    """Its cursor has the names of the tables that were in the lake."""
    names = settings.names

    @dg.sensor(
        name=f"snapshot_{names.safe}_needed",
        jobs=[job, rewind],
        minimum_interval_seconds=settings.trigger.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={names.canal, names.lake},
        description=f"Starts snapshots of tables of {settings.destination}: `snapshot: {settings.snapshot}`.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        for run_id in processes.fail_gone(context.instance, {SNAPSHOT_TAG: settings.destination}):
            context.log.warning(f"run {run_id} has no process any more: failed")
        if lake.conf is None:
            return _skipped("how to reach the source is unknown: set `conf` in defs.yaml", context.cursor)
        try:
            with canal.connect() as connector:
                return _tick(context, settings, connector, lake)
        except SluiceError as error:
            return _skipped(str(error), context.cursor)

    return sensor


def _tick(
    context: dg.SensorEvaluationContext, settings: Settings, connector: Connector, lake: LakeResource
) -> dg.SensorResult:
    status = connector.status()
    if settings.snapshot == "when_needed" and (again := begin_anew(context, settings, connector, status, time.time())):
        if isinstance(again, dg.SkipReason):
            return dg.SensorResult(skip_reason=again, cursor=context.cursor)
        context.log.warning(f"all tables are made anew: {status.error and status.error.message}")
        return dg.SensorResult(run_requests=[again], cursor=context.cursor)
    client = connector.subscribe()
    there: list[str] = json.loads(context.cursor) if context.cursor else []
    if not client.backlog_ddl:  # a statement that waits may make a table
        there = _begin(context, connector, client, lake, there)
        client = connector.client_status()
    due = waiting(client, time.time(), complete=settings.snapshot == "when_needed")
    filters = dg.RunsFilter(tags={SNAPSHOT_TAG: settings.destination})
    runs = summarize(context.instance.get_run_records(filters, limit=_RECENT_RUNS))
    decision = decide(settings, due, runs, time.time())
    cursor = json.dumps(there)
    if isinstance(decision, dg.SkipReason):
        return dg.SensorResult(skip_reason=decision, cursor=cursor)
    return dg.SensorResult(run_requests=[decision], cursor=cursor)


def _begin(
    context: dg.SensorEvaluationContext,
    connector: Connector,
    client: ClientStatus,
    lake: LakeResource,
    there: Sequence[str],
) -> list[str]:
    """Begins the first snapshots of the tables that the lake does not have. The names of those that it has."""
    first, at = FirstRows(connector, lake.has, set(there)), client.cursor or connector.status().position
    for name in first.begin(connector.tables(), at) if at else ():
        context.log.info(f"{name} is not in the lake: its snapshot begins")
    return sorted(first.there)


def decide(settings: Settings, due: Sequence[str], runs: Runs, now: float) -> dg.RunRequest | dg.SkipReason:
    """One run at a time, of all tables that are due; later after each failure."""
    if not due:
        return dg.SkipReason("no table needs a snapshot")
    if runs.active:
        return dg.SkipReason(f"run {runs.active[:8]} is {runs.active_status.replace('_', ' ')}")
    if now < runs.next_try:
        return dg.SkipReason(f"the last snapshot failed; next try in {runs.next_try - now:.0f} s")
    names, text = settings.names, ",".join(due)
    config = {"tables": list(due), "reason": f"snapshot: {settings.snapshot}"}
    return dg.RunRequest(
        job_name=f"snapshot_{names.safe}",
        run_key=f"{settings.destination}:{hashlib.sha256(text.encode()).hexdigest()[:12]}:{runs.last[:8] or 'first'}",
        run_config={"ops": {f"snapshot_{names.safe}_op": {"config": config}}},
    )


def _skipped(reason: str, cursor: str | None) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=cursor)
