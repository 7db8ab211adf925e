"""What the snapshot sensor does when the source has purged the position of a destination: it starts the reset that
reloads all tables, as a run, so that it is in the history with its reason.

The reset writes the cursor and the stops of all tables at once. Before it nothing has happened, and after it the tables
wait for their snapshots, whatever is killed.
"""

from __future__ import annotations

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.status import Status
from cdc_core.errors import PositionPurged
from orchestration import processes
from orchestration.jobs.by_hand import job_name, run_config, tag_of
from orchestration.sensors.runs import Runs, recent
from orchestration.settings import Settings
from orchestration.verbs.orders import Reset


def begin_anew(
    context: dg.SensorEvaluationContext,
    instance: dg.DagsterInstance,
    settings: Settings,
    connector: Connector,
    status: Status,
    now: float,
) -> dg.RunRequest | dg.SkipReason | None:
    """Returns the request for a reset or why it waits, or None if this client's place is not purged."""
    lost = status.error.as_error() if status.error else None
    if not isinstance(lost, PositionPurged) or not connector.by_hand.is_purged(settings.client_id):
        return None
    tags = {tag_of(Reset): settings.destination}
    for run_id in processes.fail_gone(instance, tags):
        context.log.warning(f"run {run_id} has no process any more: failed")
    return decide(settings, lost, recent(instance, tags), now)


def decide(settings: Settings, lost: PositionPurged, runs: Runs, now: float) -> dg.RunRequest | dg.SkipReason:
    """One such run at a time; later after each failure."""
    if reason := runs.held_up("rewind", now):
        return dg.SkipReason(f"{reason}: {lost}")
    job = job_name(Reset, settings)
    reason = f"snapshot: {settings.snapshot}; {lost.message} at {lost.place}"[:1000]
    return dg.RunRequest(
        run_key=f"{settings.destination}:anew:{lost.place}:{runs.key}",
        job_name=job,
        run_config=run_config(job, reason=reason, anew=True, dry_run=False),
    )
