"""The sensor that looks at the change logs of a destination, and starts a run that merges them.

It reads the logs of Delta tables alone, with delta-rs. One run at a time; a run that finds nothing more to merge stays
for a while, so not every change starts one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import dagster as dg

from cdc_core.errors import LakeError, SluiceError, TableStopped
from orchestration.internals import kept_instance
from orchestration.resources import LakeResource
from orchestration.sensors.round import Round
from orchestration.sensors.runs import Runs, hash_of, recent
from orchestration.settings import Settings, Trigger
from spark_jobs.following.history.columns import work_of
from spark_jobs.following.history.standing import Histories, lacks
from spark_jobs.following.pending import Follows, Pending
from spark_jobs.landing.parked import Parking


def merging_sensor(
    settings: Settings,
    job: dg.JobDefinition,
    is_landed: Callable[[str], bool],
    keeps: Callable[[str], bool],
    lake: LakeResource,
    shared: Round,
) -> dg.SensorDefinition:
    """Level-triggered, as the sensor on the backlog is."""
    names = settings.names

    @dg.sensor(
        name=f"{names.merging}_backlog",
        job=job,
        minimum_interval_seconds=settings.trigger.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Starts a run when a change log of {settings.destination} has changes that its table lacks.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        instance = kept_instance(context)
        shared.fail_gone(context, instance)
        runs = recent(instance, names.merge_tags)
        if runs.active:
            return dg.SkipReason(runs.held_up("run", math.inf))
        follows = Follows(lake.lake, settings.destination, settings.client_id)
        try:
            waiting, troubled = _waiting(follows, is_landed, keeps, time.time())
        except SluiceError as error:
            return dg.SkipReason(f"the lake is unavailable: {error}")
        if troubled and time.time() >= runs.next_try:  # the run says what is wrong, and notes when to look again
            return dg.RunRequest(run_key=f"{settings.destination}:{runs.key}:{hash_of(','.join(troubled))}")
        return decide(settings.destination, waiting, runs, settings.merge_starts(len(waiting)), time.time())

    return sensor


def decide(
    destination: str, waiting: Sequence[Pending], runs: Runs, trigger: Trigger, now: float
) -> dg.RunRequest | dg.SkipReason:
    """A run for logs that are far enough ahead, or long enough; else the reason not to start one."""
    if not waiting:
        return dg.SkipReason("every table has all rows of its log")
    rows, since = sum(one.rows for one in waiting), min(one.since for one in waiting)
    if rows < trigger.minimum_rows and now - since < trigger.freshness_seconds:
        return dg.SkipReason(f"{rows} rows wait to be merged; a run starts at {trigger.minimum_rows}")
    if reason := runs.held_up("run", now):
        return dg.SkipReason(reason)
    ends = ",".join(f"{one.table}:{one.part.epoch}:{one.part.after}" for one in waiting)
    return dg.RunRequest(run_key=f"{destination}:{runs.key}:{hash_of(ends)}")


def _waiting(
    follows: Follows, is_landed: Callable[[str], bool], keeps: Callable[[str], bool], now: float
) -> tuple[list[Pending], list[str]]:
    """Returns what is to be merged, and the tables and histories of which that is unknown, without the ones that wait
    after a failure."""
    parked = Parking(follows.lake, follows.destination, follows.client_id).tables()
    histories = Histories(follows.lake, follows.destination, follows.client_id)
    found: list[Pending] = []
    troubled: list[str] = []
    for table in (one for one in follows.lake.logs(follows.destination) if is_landed(one)):
        looks: dict[str, Callable[[str], Pending | None]] = {table: follows.pending}
        if keeps(table):
            looks[work_of(table)] = partial(lacks, histories)
        for work, look in looks.items():
            if work in parked and not parked[work].is_due(now):
                continue
            try:
                pending = look(table)
            except (TableStopped, LakeError):
                troubled.append(work)
                continue
            if pending is not None:
                found.append(pending)
    return found, troubled
