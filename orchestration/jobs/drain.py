"""The jobs of assets: the drain and its schedule, and how such jobs are made."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from orchestration.settings import Settings


def asset_job(
    parts: dg.Definitions, name: str, selection: dg.AssetSelection, tags: Mapping[str, str], description: str
) -> dg.JobDefinition:
    """Return a job of one process that knows the assets, checks and resources of `parts`, its destination.

    A job that Dagster resolves describes the resources of all destinations of the code location, and selects from the
    assets of all: its size and time would grow with their number."""
    job = dg.define_asset_job(
        name, selection=selection, executor_def=dg.in_process_executor, tags=tags, description=description
    )
    return dg.Definitions.merge(parts, dg.Definitions(jobs=[job])).resolve_job_def(name)


def drain_job(settings: Settings, parts: dg.Definitions, asset: dg.AssetsDefinition) -> dg.JobDefinition:
    """Return the job that the sensor or the schedule starts, with one pool of Spark sessions. It plans no checks, for
    each of which Dagster would write two events in every run; a run has an event of those that change."""
    return asset_job(
        parts,
        settings.names.job,
        dg.AssetSelection.assets(*asset.keys).without_checks(),
        settings.names.run_tags,
        f"Drain the backlog of {settings.destination}: claim, merge, check, ack, batch after batch.",
    )


def drain_schedule(settings: Settings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Starts the drain by the clock, instead of the sensor."""
    return dg.ScheduleDefinition(
        name=f"cdc_{settings.names.safe}_schedule",
        job=job,
        cron_schedule=settings.starts.cron,
        tags=settings.names.run_tags,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
