"""DDL statements that wait for approval, where a table's policy is `ask`: shown, approved, rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import ConfigError
from orchestration.verbs.access import Access
from orchestration.verbs.copy import NOT_COPIED, opened_loader, outcome, read
from orchestration.verbs.orders import Ddl
from orchestration.verbs.report import Done, Report
from spark_jobs.lake.consent import PROPOSAL, REJECTED
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied

_LONGEST = 2000  # characters of a reason that the service takes


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table that waits, with its first statement that it does not follow. `position` is where the batch began."""

    table: str
    statement: str
    position: str


def run(order: Ddl, at: Access, report: Report) -> None:
    with at.connect() as connector:
        for table in order.tables:  # before the first one is reloaded
            _waiting(connector, table)
        for table in order.tables:
            report.each(table, partial(_decided, order, at, connector, table, report))


def proposals(stopped: Iterable[StoppedTable]) -> list[Proposal]:
    """Returns the stopped tables that wait for approval."""
    return [
        Proposal(stop.table, stop.reason.removeprefix(f"{PROPOSAL}: "), str(stop.position))
        for stop in stopped
        if stop.reason.startswith(PROPOSAL)
    ]


def _decided(order: Ddl, at: Access, connector: Connector, table: str, report: Report) -> Done:
    stop = _waiting(connector, table)  # reloading the tables before it may have taken hours
    (proposal,) = proposals([stop])
    if order.decision == "reject":
        _reject(connector, stop, proposal, report.reason)
        facts = {"rejected": True, "statement": proposal.statement, "reason": report.reason}
        return Done(f"rejected: {proposal.statement}", facts)
    with opened_loader(at, connector) as loader:
        found = read(loader, stop.table, report)
        done = outcome(found) if isinstance(found, Copied) else _dropped(loader, stop.table)
    return replace(done, facts={**done.facts, "statement": proposal.statement})


def _dropped(loader: Loader, table: str) -> Done:
    """Takes over that the source has no such table."""
    place = loader.drop(table)
    return Done(f"marked as dropped at {place}; its rows stay", NOT_COPIED | {"dropped": True, "position": str(place)})


def _waiting(connector: Connector, table: str) -> StoppedTable:
    """The stop of a table that waits. Raises ConfigError when it does not."""
    for stop in connector.client_status().stopped:
        if stop.table == table and proposals([stop]):
            return stop
    hint = f"See `sluice ddl list {connector.destination}`. A table that stopped otherwise: `sluice copy`."
    raise ConfigError(f"no statement of {table} waits for approval", place=connector.destination, hint=hint)


def _reject(connector: Connector, stop: StoppedTable, proposal: Proposal, why: str) -> None:
    """Leaves the table as it was before the statement, stopped for good with that reason; it waits no more."""
    reason = f"{REJECTED}{f' ({why})' if why else ''}: {proposal.statement}"[:_LONGEST]
    hint = f"It stays as it was before. To take the change over: {copy_hint(connector.destination, stop.table)}"
    if stop.position is None:
        raise ConfigError("the stop has no position", place=stop.table, hint=hint)
    connector.stop_table(stop.table, reason=reason, hint=hint, position=stop.position, copy_needed=True)
