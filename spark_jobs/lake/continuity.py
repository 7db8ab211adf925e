"""Checks that a destination's claims begin where the lake ends. Pure: the ledger's and the service's figures are given.

The ledger says which rows the lake has. The service says which rows a lake must have before it takes a claim: all rows
up to a place, with no row between that place and the claim. The two contradict each other when a cursor was lost or
restored from an older copy, when another program moved it, and when the lake is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_core.contract.reached import How, Reached
from cdc_core.errors import LakeError
from cdc_core.gtid import Gtids
from cdc_core.position import EntryPosition, split_version


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """The batches of one epoch in a ledger: the version at which the first began, and where the last ends."""

    start: int
    end: EntryPosition


@dataclass(frozen=True, slots=True)
class Seen:
    """A client as its service describes it: its present epoch, and the place up to which a lake must have all rows."""

    destination: str
    client_id: int
    epoch: int
    reached: Reached | None


def check(seen: Seen, stretches: Mapping[int, EpochSpan], place: str) -> str:
    """Returns a warning for the operator, or "". `stretches` are the ledger's epochs, `place` is the ledger.

    Raises LakeError when rows lie between the lake's end and what the destination hands out, or when the positions of
    both cannot be compared.
    """
    reached, newest = seen.reached, max(stretches, default=None)
    if newest is not None and newest > seen.epoch:
        raise LakeError(
            f"the destination is in epoch {seen.epoch}, but the lake has batches of epoch {newest}, "
            f"up to {stretches[newest].end}: the cursor was lost, or restored from an older copy",
            place=place,
            hint=_reset(seen, stretches),
        )
    if reached is None:  # a service of an older version
        return ""
    there = stretches.get(reached.epoch)
    if reached.how is How.RESET:
        return _after_reset(seen, reached, stretches, place)
    if reached.how is How.LOST:
        return f"the source no longer had the cursor's place: rows up to {reached.position} are lost"
    if reached.how is How.START and not any(epoch <= reached.epoch for epoch in stretches):
        return ""  # the lake begins with the destination
    if there is not None and reached.position <= there.end:
        return ""
    ends = f"has no batch of epoch {reached.epoch}" if newest is None else f"ends at {(there or stretches[newest]).end}"
    message = f"{_WHY[reached.how].format(reached.position)}, but the lake's ledger {ends}"
    other = "Name the lake that the batches went to, or restore it. " if reached.how is How.BATCH else ""
    raise LakeError(message, place=place, hint=other + _reset(seen, stretches))


_WHY = {
    How.BATCH: "batches are acked to {}",
    How.START: "the cursor was lost and reading restarted at {}",
    How.FOREIGN: "another program moved the cursor to {}",
}


def _after_reset(seen: Seen, reached: Reached, stretches: Mapping[int, EpochSpan], place: str) -> str:
    """A reset may skip rows: that is its purpose. Its epoch must be new to the lake, or versions would mislead it."""
    there = stretches.get(reached.epoch)
    if there is not None and there.start < reached.position.version():
        number, offset = split_version(there.start)
        raise LakeError(
            f"the cursor was reset to {reached.position} in epoch {reached.epoch}, but the lake has batches of that "
            f"epoch from journal {number}:{offset} on",
            place=place,
            hint=_reset(seen, stretches),
        )
    before = max((epoch for epoch in stretches if epoch < reached.epoch), default=None)
    if there is None and before is not None and stretches[before].end < reached.position:
        lake = stretches[before].end
        return f"a reset skipped the rows from {lake}, where the lake ends, to {reached.position}"
    return ""


def _reset(seen: Seen, stretches: Mapping[int, EpochSpan]) -> str:
    command = f"{reset_command(seen, stretches)} --yes."
    if not stretches:
        return f"To fill an empty lake from the oldest rows at the source: {command}"
    return (
        f"To continue where the lake ends: {command} If the source has purged that: `sluice reset {seen.destination} "
        f"--anew --yes`, and `sluice snapshot {seen.destination}`, which reloads the tables."
    )


def reset_command(seen: Seen, stretches: Mapping[int, EpochSpan]) -> str:
    """Returns the command, without its end, that makes the destination continue where the lake ends."""
    command = f"sluice reset {seen.destination} --client-id {seen.client_id}"
    if not stretches:
        return f"{command} --earliest"
    newest = max(stretches)
    end = stretches[newest].end
    to = f"--gtid {end.gtid}" if isinstance(end.gtid, Gtids) and end.gtid else f"--position {end}"
    return f"{command} {to}{f' --epoch {newest + 1}' if newest > seen.epoch else ''}"
