"""Resumes a paused or stopped table, or a paused destination.

A table whose changes were acked without it is copied from the source first, which ends its stop. Other tables are
resumed at once, and their changes come. A killed run leaves the table stopped, and may be run again.
"""

from __future__ import annotations

from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import SessionError
from orchestration.verbs.access import Access
from orchestration.verbs.copy import opened_loader, reloaded
from orchestration.verbs.orders import WHOLE, Resume
from orchestration.verbs.pause import check_captured
from orchestration.verbs.report import Done, Report


def run(order: Resume, at: Access, report: Report) -> None:
    with at.connect() as connector:
        if order.table == WHOLE:
            report.one(WHOLE, lambda: Done("resumed", {"servers": connector.by_hand.start()}), "store")
        else:
            report.one(order.table, lambda: resumed(at, connector, order.table, report))


def resumed(at: Access, connector: Connector, table: str, report: Report) -> Done:
    """Ends a table's stop, and copies the table if its changes have passed. Raises what `lift` and the copy raise."""
    stop = lift(connector, table)
    if stop is None:
        return Done("resumed", {"copied": False})
    report.progress(f"changes of {table} up to {stop.passed} passed: it is copied from the source")
    with opened_loader(at, connector) as loader:
        return reloaded(loader, table, report)


def lift(connector: Connector, table: str) -> StoppedTable | None:
    """Ends a table's stop. Returns the stop if only a copy can end it, or None if the table goes on.

    Raises SessionError when a client has claimed changes of it, or reads a snapshot of it; ConfigError for a table that
    is neither stopped nor captured.
    """
    client = connector.subscribe()
    if not any(stop.table == table for stop in client.stopped):
        check_captured(connector, table)
        return None
    if any(snapshot.table == table and not snapshot.broken for snapshot in client.snapshots):
        hint = "The snapshot lifts the stop when it is in the lake. To do without it, cancel it and resume again."
        raise SessionError("a snapshot of the table is open", place=table, hint=hint)
    try:
        connector.lift_stop(table)
        return None
    except SessionError:
        for stop in connector.client_status().stopped:
            if stop.table == table and stop.passed is not None:
                return stop
        raise
