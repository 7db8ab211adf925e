"""Reports on a table whose quarantine or block a verb may have changed: to the service, and as verdicts of checks."""

from __future__ import annotations

from contextlib import suppress

from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from orchestration.verbs.report import Report
from spark_jobs.apply.waiting_rows import WaitingRows
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.parked import Parking


def report_waiting(connector: Connector, lake: Lake, table: str, report: Report) -> None:
    """Counts the rows of the table that wait, and reports them. An error changes nothing of what was done: the next run
    that drains reports all of them."""
    with suppress(SluiceError):
        client = connector.client_status()
        found = WaitingRows(lake, connector.destination, connector.client_id, client.epoch).of(table)
        if found.checks:
            report.waiting(table, found.checks)
        if found.rows != client.quarantined.get(table, 0):
            connector.report_quarantined({table: found.rows})
        report_blocked(connector, lake)


def report_blocked(connector: Connector, lake: Lake) -> None:
    """Reports which tables' change logs their rows block, if that has changed. The next run that merges makes up for an
    error."""
    with suppress(SluiceError):
        found = Parking(lake, connector.destination, connector.client_id).blocked()
        if found != connector.client_status().blocked:
            connector.report_blocked(found)
