"""Brings rows of a quarantine into their table: as they are, or with other values.

Killed anywhere, it is done again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestration.verbs.access import Access
from orchestration.verbs.orders import Requeue
from orchestration.verbs.report import Done, Report
from orchestration.verbs.waiting import report_waiting
from spark_jobs.load.replacement import Target
from spark_jobs.load.requeue import ChosenRows, Requeuer
from spark_jobs.load.result import LakeClient


def run(order: Requeue, at: Access, report: Report) -> None:
    report.one(order.table, lambda: _requeued(order, at, report))


def _requeued(order: Requeue, at: Access, report: Report) -> Done:
    with opened(at, order.table, report) as requeuer:
        done = requeuer.requeue(ChosenRows(order.check, order.keys), order.given)
    report.waiting(order.table, done.waiting)
    facts = {"rows": done.rows, "waiting": done.left}
    facts |= {} if done.delta_version is None else {"delta_version": done.delta_version}
    return Done(f"{done.rows:,} rows are in the table, {done.left:,} wait still", facts)


@contextmanager
def opened(at: Access, table: str, report: Report) -> Iterator[Requeuer]:
    """Yields what changes the quarantine of a table, and reports what waits afterwards. Raises SluiceError when the
    service is down."""
    with at.connect() as connector, at.sessions() as sessions:
        epoch = connector.client_status().epoch
        client = LakeClient(at.destination, at.client_id, epoch, at.run_id)
        yield Requeuer(Target.fenced(at.lake, sessions, client, table), sessions)
        report_waiting(connector, at.lake, table, report)
