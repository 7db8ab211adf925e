"""Stops that only a person ends, and which of them a load may lift: pure.

By its policy, for its deleted rows, or because it could show what a rule hides, a table waits for a person's consent. A
load that a person begins after that is the consent. One that began before knew nothing of it, and one that begins by
itself asks nobody: neither lifts such a stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import TableStopped
from cdc_core.rules.claims import HIDING

# how the reasons of such stops begin
PROPOSAL = "a change waits for approval"
REJECTED = "a change was rejected"
TAKES_DELETED = "a copy would remove its deleted rows, so it waits for approval"
EXCEPTION = "the source changed the table, and its policy is exception"


class NotConsented(TableStopped):
    """The table waits for a person's consent, which the load does not have. The stop stays."""


def waits_for_consent(reason: str) -> bool:
    """Whether a table that is stopped for this reason is left to a person."""
    return reason.startswith((PROPOSAL, REJECTED, TAKES_DELETED, EXCEPTION, HIDING))


def waiting_ones(stopped: Iterable[StoppedTable]) -> dict[str, str]:
    """Returns the tables that wait for consent, each with its reason: what a load that a person begins now may lift."""
    return {stop.table: stop.reason for stop in stopped if waits_for_consent(stop.reason)}


def check_consent(stopped: Iterable[StoppedTable], table: str, consents: Mapping[str, str]) -> None:
    """Raises NotConsented if the table waits for consent, for another reason than in the load's `consents`."""
    for stop in stopped:
        if stop.table == table and waits_for_consent(stop.reason) and consents.get(table) != stop.reason:
            message = f"it waits for a person, and this load began before that, or by itself: {stop.reason}"
            raise NotConsented(message, place=table, hint=stop.hint)
