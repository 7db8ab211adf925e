"""The job that drains a destination, and its schedule."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from orchestration.settings import Settings


def drain_job(settings: Settings, asset: dg.AssetsDefinition) -> UnresolvedAssetJobDefinition:
    """The job that the sensor or the schedule starts: one process, one pool of Spark sessions. It plans no checks, of
    which Dagster would note two events each for every run; a run has an event of those that change."""
    return dg.define_asset_job(
        settings.names.job,
        selection=dg.AssetSelection.assets(*asset.keys).without_checks(),
        executor_def=dg.in_process_executor,
        tags=settings.names.run_tags,
        description=f"Drain the backlog of {settings.destination}: claim, merge, check, ack, batch after batch.",
    )


def drain_schedule(settings: Settings, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Starts the drain by the clock, instead of the sensor."""
    return dg.ScheduleDefinition(
        name=f"cdc_{settings.names.safe}_schedule",
        job=job,
        cron_schedule=settings.starts.cron,
        tags=settings.names.run_tags,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
