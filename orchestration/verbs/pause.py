"""A table, or a whole destination, paused.

A paused table is a stopped one: its changes are acked without it, so it does not hold the others back, and it gets them
from the source when it is resumed. A paused destination reads nothing; its cursor stays. Both may be done twice.
"""

from __future__ import annotations

from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import PAUSED
from cdc_core.errors import SessionError, safe_name
from orchestration.verbs.access import Access
from orchestration.verbs.orders import WHOLE, Pause
from orchestration.verbs.report import Done, Report


def run(order: Pause, at: Access, report: Report) -> None:
    with at.connect() as connector:
        if order.table == WHOLE:
            report.one(WHOLE, lambda: Done("paused", {"servers": connector.by_hand.stop()}), "store")
        else:
            report.one(order.table, lambda: pause_table(connector, order.table, report.reason))


def pause_table(connector: Connector, table: str, reason: str) -> Done:
    """Stops one table from the client's cursor on. A table that is stopped stays so, with its reason.

    Raises ConfigError for a table that is not captured.
    """
    client = connector.subscribe()
    for stop in client.stopped:
        if stop.table == table:
            text = f"is stopped already: {stop.reason}"
            return Done(text, {"changed": False, "stopped": stop.reason, "position": str(stop.position)})
    check_captured(connector, table)
    if client.cursor is None:
        hint = "Pause it again when the destination has read something."
        raise SessionError("the client has no cursor yet", place=connector.destination, hint=hint)
    name = connector.destination
    hint = (
        f"`sluice resume {name} {table}`, or the job resume_{safe_name(name)}, lets it go on; it copies the table from "
        "the source if changes came meanwhile."
    )
    connector.stop_table(table, reason=f"{PAUSED}{reason}", hint=hint, position=client.cursor)
    return Done(f"paused at {client.cursor}", {"changed": True, "position": str(client.cursor)})


def check_captured(connector: Connector, table: str) -> None:
    """Raises ConfigError for a table that the service does not capture."""
    captured = {schema.name for schema in connector.tables()}
    if table not in captured:
        raise connector.not_captured(table, captured)
