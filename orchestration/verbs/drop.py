"""Drops rows of a quarantine; their table stays as it is. If it is killed, run it again."""

from __future__ import annotations

from orchestration.verbs.access import Access
from orchestration.verbs.orders import Drop
from orchestration.verbs.report import Done, Report
from orchestration.verbs.requeue import opened
from spark_jobs.load.requeue import ChosenRows


def run(order: Drop, at: Access, report: Report) -> None:
    report.one(order.table, lambda: _dropped(order, at, report))


def _dropped(order: Drop, at: Access, report: Report) -> Done:
    with opened(at, order.table, report) as requeuer:
        done = requeuer.drop(ChosenRows(order.check, order.keys))
    report.waiting(order.table, done.waiting)
    return Done(f"{done.rows:,} rows dropped, {done.left:,} wait still", {"rows": done.rows, "waiting": done.left})
