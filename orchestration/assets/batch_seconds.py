"""Where the age of a batch's rows comes from: seconds by stage, from the commit at the source to the ack."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_core.contract.claim import Claim
from cdc_core.contract.stages import ACK, CLAIM, DECODE, NETWORK, PLAN, STORE, WRITE

SECONDS = "sluice/seconds"  # in a materialization's metadata


def batch_seconds(claim: Claim, planned: float, written: float, acked: float) -> dict[str, float]:
    """Returns for the batch's oldest row how long each stage took, {} for a batch without rows. The moments are in
    seconds since the epoch. All stages but the ack add up to the row's age at `written`, when it could be seen first.

    The time before a moment that is not known counts in the next stage. No stage is below 0 when clocks differ.
    """
    if not claim.execute_times:
        return {}
    commit = min(second for second, _ in claim.execute_times)
    arrived = dict(zip((NETWORK, DECODE, STORE, CLAIM), claim.moments, strict=False))
    moments = arrived | {PLAN: planned, WRITE: written}
    found, age = dict[str, float](), 0.0
    for stage, moment in moments.items():
        if moment:
            reached = max(age, round(min(moment, written) - commit, 3))
            found[stage] = round(reached - age, 3)
            age = reached
    return found | {ACK: max(0.0, round(acked - max(written, commit), 3))}


def age(seconds: Mapping[str, float]) -> float:
    """Returns the age that the oldest row had when it could be seen."""
    return sum(value for stage, value in seconds.items() if stage != ACK)
