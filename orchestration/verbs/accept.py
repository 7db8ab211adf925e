"""Takes a batch that an expectation blocked, as it is.

What blocks its table is a warning until the table has passed the batch. It may be killed and run again: the note stays,
and a stopped table is resumed as by `resume`.
"""

from __future__ import annotations

import time

from orchestration.verbs.access import Access
from orchestration.verbs.orders import Accept
from orchestration.verbs.report import Done, Report
from orchestration.verbs.resume import resumed
from orchestration.verbs.waiting import report_blocked
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.landing.parked import Parking


def run(order: Accept, at: Access, report: Report) -> None:
    report.one(order.table, lambda: _accepted(order.table, at, report))


def _accepted(table: str, at: Access, report: Report) -> Done:
    """Notes the reason, and has the table go on. Raises ConfigError for a table that is not blocked."""
    acceptances = Acceptances(at.lake, at.destination, at.client_id)
    blocked = acceptances.accept(table, report.reason or f"accepted at {time.strftime('%Y-%m-%d %H:%M:%S')}")
    facts = {"checks": list(blocked.checks), "epoch": blocked.epoch, "upto": blocked.upto}
    text = f"{', '.join(blocked.checks)} warn until the batch is in the table"
    with at.connect() as connector:
        stopped = any(stop.table == table for stop in connector.client_status().stopped)
        if not stopped:  # its change log is merged by its own run
            Parking(at.lake, at.destination, at.client_id).free(table)
            report_blocked(connector, at.lake)
            report.accepted(table, blocked.checks)
            return Done(text, facts)
        done = resumed(at, connector, table, report)
    report.accepted(table, blocked.checks)
    return Done(f"{text}; {done.text}", {**facts, **done.facts}, done.good, done.reloaded)
