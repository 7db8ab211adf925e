"""What Dagster's records say of one destination's runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from cdc_core.retry import pause_after
from orchestration.names import ACKED_TAG, LEFT_TAG, UNTIL_TAG

_RECENT_RUNS = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0  # seconds after one failed run, and at most after many


@dataclass(frozen=True, slots=True)
class Runs:
    """The run that is `active`, or None, with its status, and the `last` one that ended, or "".

    `failures` counts the failed runs since the last one that succeeded or acked something. `last_ended` is in seconds
    since the epoch. `left`: the last run failed, or was cut short, before it had brought the rows from before this
    time, in milliseconds; "" if it had, or was cancelled by a person.
    """

    active: str | None = None
    active_status: str = ""
    last: str = ""
    last_ended: float = 0.0
    failures: int = 0
    left: str = ""

    @property
    def key(self) -> str:
        """The part of a run's key that differs after each run."""
        return self.last[:8] or "first"

    def held_up(self, what: str, now: float) -> str:
        """Returns why no run may start, or "": one at a time, and later after each failure."""
        if self.active:
            return f"run {self.active[:8]} is {self.active_status.replace('_', ' ')}"
        if now < self.next_try:
            return f"the last {what} failed; next try in {self.next_try - now:.0f} s"
        return ""

    @property
    def next_try(self) -> float:
        """When a run may start, in seconds since the epoch: later after each failure."""
        if not self.failures:
            return 0.0
        return self.last_ended + pause_after(self.failures, _FIRST_PAUSE, _LONGEST_PAUSE)


def summarize(records: Sequence[dg.RunRecord]) -> Runs:
    """Summary of run records, given the newest first."""
    active = next((r.dagster_run for r in records if not r.dagster_run.is_finished), None)
    ended = [r for r in records if r.dagster_run.is_finished]
    failures = 0
    for record in ended:
        if record.dagster_run.status == dg.DagsterRunStatus.SUCCESS:
            break
        failures += record.dagster_run.status == dg.DagsterRunStatus.FAILURE
        if ACKED_TAG in record.dagster_run.tags:
            break  # it failed after some batches: there is progress, and no reason to wait ever longer
    last = ended[0] if ended else None
    return Runs(
        active=active.run_id if active else None,
        active_status=active.status.value.lower() if active else "",
        last=last.dagster_run.run_id if last else "",
        last_ended=(last.end_time or 0.0) if last else 0.0,
        failures=failures,
        left=_left(last) if last else "",
    )


def _left(last: dg.RunRecord) -> str:
    run = last.dagster_run
    if run.status == dg.DagsterRunStatus.FAILURE:
        return run.tags.get(UNTIL_TAG) or str(int(1000 * (last.start_time or last.create_timestamp.timestamp())))
    return run.tags.get(LEFT_TAG, "") if run.status == dg.DagsterRunStatus.SUCCESS else ""


def recent(instance: dg.DagsterInstance, tags: dict[str, str]) -> Runs:
    """The runs with these tags."""
    return summarize(instance.get_run_records(dg.RunsFilter(tags=tags), limit=_RECENT_RUNS))


def hash_of(text: str) -> str:
    """A short name for a long text, in the key of a run."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def has_ended(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether this instance knows the run, and it has ended. An unknown run may be another instance's, and at work."""
    run = instance.get_run_by_id(run_id)
    return run is not None and run.is_finished
