"""Statements that wait for approval, where a table's policy is `ask`, and what it means to reject one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import ConfigError
from spark_jobs.apply.ddl.consent import PROPOSAL
from spark_jobs.lake.remedy import copy_hint

REJECTED = "a change was rejected"  # how the reason of such a stop begins
_LONGEST = 2000  # characters of a reason that the service takes


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table that waits, with its first statement that it does not follow. `position` is where the batch began."""

    table: str
    statement: str
    position: str


def proposals(stopped: Iterable[StoppedTable]) -> list[Proposal]:
    """Those of the stopped tables that wait for approval."""
    return [
        Proposal(stop.table, stop.reason.removeprefix(f"{PROPOSAL}: "), str(stop.position))
        for stop in stopped
        if stop.reason.startswith(PROPOSAL)
    ]


def check_waiting(connector: Connector, tables: Iterable[str]) -> dict[str, StoppedTable]:
    """The stops of these tables. Raises ConfigError for one that does not wait for approval."""
    stopped = connector.client_status().stopped
    waiting = {one.table for one in proposals(stopped)}
    for name in tables:
        if name not in waiting:
            hint = f"See `sluice ddl list {connector.destination}`. A table that stopped otherwise: `sluice copy`."
            raise ConfigError(f"no statement of {name} waits for approval", place=connector.destination, hint=hint)
    return {stop.table: stop for stop in stopped if stop.table in waiting}


def reject(connector: Connector, stop: StoppedTable, why: str) -> Proposal:
    """The table stays as it was before the statement, stopped for good with that reason; it waits no more."""
    (proposal,) = proposals([stop])
    reason = f"{REJECTED}{f' ({why})' if why else ''}: {proposal.statement}"[:_LONGEST]
    hint = f"It stays as it was before. To take the change over: {copy_hint(connector.destination, stop.table)}"
    if stop.position is None:
        raise ConfigError("the stop has no position", place=stop.table, hint=hint)
    connector.stop_table(stop.table, reason=reason, hint=hint, position=stop.position, copy_needed=True)
    return proposal
