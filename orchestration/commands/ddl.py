"""`sluice ddl`: the statements that wait where a table's policy is `ask`; approved or rejected."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from rich.console import Console

from cdc_core import config
from cdc_core.client.connector import Connector
from orchestration.commands import copy
from orchestration.commands.text import position, table, text
from orchestration.commands.verify import connector_of
from orchestration.proposals import Proposal, check_waiting, proposals, reject


def waiting(order: copy.Order) -> list[Proposal]:
    """What waits in the order's destination. Its tables do not matter."""
    with _connector(order) as connector:
        return proposals(connector.client_status().stopped)


def show(order: copy.Order, *, as_json: bool) -> int:
    """Prints a row, or with --json a line, for each statement that waits."""
    console, found = Console(), waiting(order)
    if as_json:
        for one in found:
            print(json.dumps(asdict(one)), flush=True)
    elif not found:
        console.print(f"{order.destination}: no statement waits for approval")
    else:
        rows = table(text("table"), text("statement"), position("since"))
        for one in found:
            rows.add_row(one.table, one.statement, one.position)
        console.print(rows)
    return 0


def approve(order: copy.Order, *, as_json: bool) -> int:
    """Copies the order's tables, each of which must wait. Returns what `copy.run` returns."""
    with _connector(order) as connector:
        check_waiting(connector, order.tables)
    return copy.run(replace(order, tables=tuple(dict.fromkeys(order.tables))), as_json=as_json)


def refuse(order: copy.Order, why: str, *, as_json: bool) -> int:
    """Rejects the statements of the order's tables, each of which must wait. Prints a line for each."""
    with _connector(order) as connector:
        stops = check_waiting(connector, order.tables)
        for name in dict.fromkeys(order.tables):
            done = reject(connector, stops[name], why)
            told = {"table": name, "rejected": True, "statement": done.statement, "reason": why}
            print(json.dumps(told) if as_json else f"{name}: rejected: {done.statement}", flush=True)
    return 0


def _connector(order: copy.Order) -> Connector:
    service, _ = config.load_service(order.conf)
    return connector_of(order.service, order.token, service, order.destination, order.client)
