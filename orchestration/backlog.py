"""What the backlog sensor decides, purely: whether to start a run, whose claims to give back, what to say.

`state` is the service's answer about the client, `runs` what Dagster knows of this destination's runs. A run key holds
for ever in Dagster, also for a run that failed, so it names all that must change before another run makes sense:
how far the client acked, how often it was rolled back (which also rises with a restart of the service), and the last
run. A run that fails is therefore tried again, later each time unless it got somewhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from orchestration.names import ACKED_TAG
from orchestration.settings import Trigger

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0  # seconds after one failed run, and at most after many


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one destination. `failures` counts the last ones that failed, back to one that acked anything; times are
    epoch seconds."""

    active: str | None = None
    active_status: str = ""
    last: str = ""
    last_ended: float = 0.0
    failures: int = 0

    @property
    def next_try(self) -> float:
        if not self.failures:
            return 0.0
        return self.last_ended + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10))


def runs_of(records: Sequence[dg.RunRecord]) -> Runs:
    """Summary of run records, the newest first."""
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
    )


def dead_owners(state: dict[str, Any], is_alive: Callable[[str], bool]) -> list[str]:
    """Owners of claims whose Dagster run has ended or is unknown. Who is no Dagster run is left to its lease."""
    owners = dict.fromkeys(str(claim["owner"]) for claim in state["claims"])
    return [owner for owner in owners if _is_run_id(owner) and not is_alive(owner)]


def decide(
    destination: str, state: dict[str, Any], lag_seconds: float | None, runs: Runs, trigger: Trigger, now: float
) -> dg.RunRequest | dg.SkipReason:
    """One run at a time, for a backlog that is large or old enough. A reason not to reads like a sentence."""
    rows = int(state["backlog_rows"])
    for claim in state["claims"]:
        return dg.SkipReason(f"batch {claim['batch_id']} in flight by run {short(claim['owner'])}")
    if runs.active:
        return dg.SkipReason(f"run {short(runs.active)} is {runs.active_status.replace('_', ' ')}")
    if rows == 0:
        return dg.SkipReason(f"drained at {place(state)}")
    if rows < trigger.minimum_rows and (lag_seconds or 0) < trigger.freshness_seconds:
        return dg.SkipReason(f"{rows} rows are waiting; a run starts at {trigger.minimum_rows}")
    if now < runs.next_try:
        times = "once" if runs.failures == 1 else f"{runs.failures} times"
        return dg.SkipReason(f"failed {times}, last in run {short(runs.last)}; next try in {runs.next_try - now:.0f} s")
    return dg.RunRequest(run_key=run_key(destination, state, runs))


def run_key(destination: str, state: dict[str, Any], runs: Runs) -> str:
    return f"{destination}:{state['ack']}:{state['rollbacks']}:{short(runs.last) or 'first'}"


def place(state: dict[str, Any]) -> str:
    """The client's cursor as people read it."""
    cursor = state.get("cursor")
    return f"{cursor['journalName']}:{cursor['position']}" if cursor else "the start"


def short(run_id: str) -> str:
    return run_id[:8]


def _is_run_id(owner: str) -> bool:
    try:
        return str(uuid.UUID(owner)) == owner
    except ValueError:
        return False
