"""Rows set back to what they were before batches or a transaction: see `correcting`."""

from __future__ import annotations

from orchestration.verbs.access import Access
from orchestration.verbs.correcting import corrected, tables_of
from orchestration.verbs.orders import Undo
from orchestration.verbs.past import asked_part
from orchestration.verbs.report import Report
from spark_jobs.lake.corrections import Correction
from spark_jobs.undo.plan import Planner


def run(order: Undo, at: Access, report: Report) -> None:
    asked = asked_part(order, at)
    planner = Planner(tables_of(at), asked.part_of, "before", order.force)
    about = Correction("undo", *asked.bounds, asked.text, report.reason, at.run_id, forced=order.force)
    corrected(at, report, planner, about, asked.names, dry_run=order.dry_run)
