"""The decisions of the backlog sensor, without I/O: whether to start a run, which claims to give back, what to say."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import dagster as dg

from cdc_core.contract.client_status import ClientStatus
from orchestration.sensors.runs import Runs
from orchestration.settings import ENDLESS, Trigger


def dead_owners(client: ClientStatus, has_ended: Callable[[str], bool]) -> list[str]:
    """Owners of claims whose Dagster run has ended. Any other owner keeps its lease."""
    owners = dict.fromkeys(claim.owner for claim in client.claims)
    return [owner for owner in owners if _is_run_id(owner) and has_ended(owner)]


def decide(
    destination: str,
    client: ClientStatus,
    lag_seconds: float | None,
    runs: Runs,
    trigger: Trigger,
    now: float,
    *,
    standing: bool = False,
) -> dg.RunRequest | dg.SkipReason:
    """One run at a time, for a backlog that is large or old enough, or `standing` to wait for rows; else the reason not
    to start one, for people."""
    waiting = client.waiting
    for claim in client.claims:
        return dg.SkipReason(f"batch {claim.batch_id} in flight by run {_short(claim.owner)}")
    if runs.active:
        return dg.SkipReason(runs.held_up("run", now))
    if waiting == 0 and not standing:
        return dg.SkipReason(drained(client))
    full = client.holds_back_seconds is not None  # nothing more comes before this client acks, not even a commit
    if not (standing or full) and waiting < trigger.minimum_rows and (lag_seconds or 0) < trigger.freshness_seconds:
        at = f"{trigger.minimum_rows}" if trigger.minimum_rows < ENDLESS else "their time"
        return dg.SkipReason(f"{waiting} rows are waiting; a run starts at {at}")
    if now < runs.next_try:
        times = "once" if runs.failures == 1 else f"{runs.failures} times"
        pause = f"next try in {runs.next_try - now:.0f} s"
        return dg.SkipReason(f"failed {times}, last in run {_short(runs.last)}; {pause}")
    return dg.RunRequest(run_key=run_key(destination, client, runs))


def drained(client: ClientStatus) -> str:
    """How far, for people."""
    return f"drained at {client.cursor or 'the start'}"


def waits_for(client: ClientStatus, clients: Sequence[ClientStatus]) -> str:
    """Which other client keeps rows from this one, "" when none does: the store is full of rows that it has not
    acked."""
    if client.backlog_rows:
        return ""
    others = [one for one in clients if one.holds_back_seconds is not None and one.client_id != client.client_id]
    return "; ".join(
        f"nothing comes: client {one.client_id} has held the full store back for {one.holds_back_seconds:.0f} s"
        for one in others
    )


def run_key(destination: str, client: ClientStatus, runs: Runs) -> str:
    """What must change before another run makes sense.

    Dagster keeps a key for ever, also that of a failed run. So it names how far the client acked, its generation (which
    changes with a rollback and with a restart of the service), and the last run. A run that fails is tried again.
    """
    return f"{destination}:{client.ack}:{client.generation}:{runs.key}"


def _short(run_id: str) -> str:
    return run_id[:8]


def _is_run_id(owner: str) -> bool:
    try:
        return str(uuid.UUID(owner)) == owner
    except ValueError:
        return False
