"""The jobs that sensors start again and again, and what starts one by the clock.

Such a job selects no asset. Of each asset that a run selects, Dagster writes an event that it is planned, looks up what
its sources had last, and keeps the selection in a snapshot of the job: seconds and a megabyte for 500 tables, whatever
changes. What a run materializes and checks is an event of the asset all the same.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Callable, Collection, Iterator, Mapping

import dagster as dg

from orchestration.settings import Settings

Work = Callable[[dg.OpExecutionContext, Collection[dg.AssetCheckKey]], Iterator[dg.AssetCheckResult]]
"""What a run does, as an asset or as a job. It yields the results of the checks that the run selected."""


def routine_job(
    name: str,
    pool: str,
    resources: set[str],
    config: Mapping[str, dg.Field],
    tags: Mapping[str, str],
    description: str,
    work: Work,
) -> dg.JobDefinition:
    """Return a job of one process, with one pool of Spark sessions, that does the work."""

    @dg.op(name=f"{name}_op", pool=pool, required_resource_keys=resources, config_schema=dict(config))
    def act(context: dg.OpExecutionContext) -> None:
        for _ in work(context, ()):
            pass

    @dg.job(name=name, tags=dict(tags), executor_def=dg.in_process_executor, description=description)
    def job() -> None:
        act()

    return job


def drain_schedule(settings: Settings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Starts the drain by the clock, instead of the sensor."""
    return dg.ScheduleDefinition(
        name=f"cdc_{settings.names.safe}_schedule",
        job=job,
        cron_schedule=settings.starts.cron,
        tags=settings.names.run_tags,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
