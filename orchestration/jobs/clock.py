"""Schedules that wait for their own runs: a job that takes longer than the time between two does not pile up."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import dagster as dg

_AT_WORK = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
_STARTING = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
_STARTS = datetime.timedelta(hours=1)  # one that takes longer will never start


def schedule_of(
    name: str,
    job: dg.JobDefinition,
    cron: str,
    *,
    config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.ScheduleDefinition:
    """Returns a schedule that starts the job at its times, unless a run of it is under way."""

    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if run_id := unfinished(context.instance, job.name):
            return dg.SkipReason(f"run {run_id} of {job.name} has not ended")
        return dg.RunRequest(run_config=config, tags=tags)

    return dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=cron,
        execution_fn=evaluate,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def unfinished(instance: dg.DagsterInstance, job: str) -> str:
    """Returns the id of a run of a job that waits, starts or works; "" if there is none."""
    since = datetime.datetime.now(datetime.UTC) - _STARTS
    for found in (
        dg.RunsFilter(job_name=job, statuses=_AT_WORK),
        dg.RunsFilter(job_name=job, statuses=_STARTING, updated_after=since),
    ):
        for run in instance.get_runs(found, limit=1):
            return run.run_id
    return ""
