"""The sensor that deletes old runs of ours with their events, and ticks that started nothing: Dagster keeps runs for
ever, and ticks for a day at least.

It keeps the runs of others, the newest ones of each destination, by which the other sensors go, and each run that has
the last materialization of an asset. A deleted run takes its lines in the history of the assets with it; the lake's
ledger and the histories of Delta's tables stay.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator

import dagster as dg

from cdc_core.errors import ConfigError
from orchestration.internals import delete_skipped_ticks, files_of_run
from orchestration.names import DESTINATION_TAG, JOB_TAG, MERGE_TAG, RUNS_KEPT_DAYS, RUNS_KEPT_VARIABLE

_NAME = "sluice_old_runs"
_OTHERS_DAYS = 30.0  # at least, of runs that failed and of jobs, with their reasons
_NEWEST = 25  # of each destination and kind; the sensors look at 12
_AT_ONCE, _SECONDS = 500, 20.0  # the bounds of one tick
_INTERVAL = 600
_SKIPPED_SECONDS = 3600.0  # that a tick is kept which started nothing: 25 MB a day and destination otherwise
_OURS = re.compile(r"sluice_\w+|\w+_(backlog|needed|alerts)")  # sensors
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def old_runs_sensor() -> dg.SensorDefinition:
    """Returns the sensor, which runs by itself if the variable is set, as `sluice up` and `sluice demo` do; else people
    start it."""
    by_itself = RUNS_KEPT_VARIABLE in os.environ

    @dg.sensor(
        name=_NAME,
        minimum_interval_seconds=_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING if by_itself else dg.DefaultSensorStatus.STOPPED,
        description=f"Deletes Sluice's runs of more than {RUNS_KEPT_VARIABLE} days ago, {RUNS_KEPT_DAYS:g} by default.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        days = kept_days()
        if not days:
            return dg.SkipReason("old runs are kept")
        now = datetime.datetime.now(datetime.UTC)
        delete_ticks(context.instance, now)
        deleted = delete_old(context.instance, days, now)
        return dg.SkipReason(f"{deleted} runs deleted that were older than {days:g} days")

    return sensor


def kept_days() -> float:
    """Raises ConfigError for a value that is not a number of days."""
    text = os.environ.get(RUNS_KEPT_VARIABLE) or str(RUNS_KEPT_DAYS)
    with contextlib.suppress(ValueError):
        if (days := float(text)) >= 0:
            return days
    hint = "Set it to a number of days, or to 0 to keep all runs."
    raise ConfigError(f"{text!r} is not a number of days", place=RUNS_KEPT_VARIABLE, hint=hint)


def delete_ticks(instance: dg.DagsterInstance, now: datetime.datetime) -> list[str]:
    """Deletes ticks of our sensors that started nothing, but those of the last hour. Returns the sensors' names."""
    before = now.timestamp() - _SKIPPED_SECONDS
    return delete_skipped_ticks(instance, _NAME, lambda name: _OURS.fullmatch(name) is not None, before)


def delete_old(
    instance: dg.DagsterInstance,
    days: float,
    now: datetime.datetime,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Deletes runs that ended more than so many days ago, as far as one tick goes; their number."""
    until, deleted, last = clock() + _SECONDS, 0, _last_of_assets(instance)
    for record in _old(instance, days, now, _AT_ONCE + _NEWEST + len(last)):
        if record.dagster_run.run_id in last:
            continue
        if deleted >= _AT_ONCE or clock() > until:
            break
        delete_run(instance, record.dagster_run.run_id)
        deleted += 1
    return deleted


def delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Deletes a run, its events, and its files, of which Dagster leaves some."""
    instance.delete_run(run_id)
    files, folders = files_of_run(instance, run_id)
    for file in files:
        file.unlink(missing_ok=True)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _old(instance: dg.DagsterInstance, days: float, now: datetime.datetime, most: int) -> Iterator[dg.RunRecord]:
    """The oldest first, of each destination and kind."""
    kinds = [DESTINATION_TAG, MERGE_TAG, JOB_TAG]
    for tag, values in instance.get_run_tags(tag_keys=kinds):
        routine = [] if tag == JOB_TAG else [dg.DagsterRunStatus.SUCCESS]
        rest = [status for status in _ENDED if status not in routine]
        for value in sorted(values):
            newest = {one.run_id for one in instance.get_runs(dg.RunsFilter(tags={tag: value}), limit=_NEWEST)}
            for statuses, kept in ((routine, days), (rest, max(days, _OTHERS_DAYS))):
                if not statuses:
                    continue
                before = now - datetime.timedelta(days=kept)
                found = dg.RunsFilter(tags={tag: value}, statuses=statuses, updated_before=before)
                records = instance.get_run_records(found, limit=most, ascending=True)
                yield from (one for one in records if one.dagster_run.run_id not in newest)


def _last_of_assets(instance: dg.DagsterInstance) -> set[str]:
    """The runs that have the last materialization of an asset."""
    entries = (record.asset_entry for record in instance.get_asset_records())
    return {one.last_materialization_record.run_id for one in entries if one.last_materialization_record}
