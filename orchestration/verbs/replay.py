"""Batches or a transaction applied again: see `correcting`."""

from __future__ import annotations

from orchestration.verbs.access import Access
from orchestration.verbs.correcting import corrected, tables_of
from orchestration.verbs.orders import Replay
from orchestration.verbs.past import asked_part
from orchestration.verbs.report import Report
from spark_jobs.lake.corrections import Correction
from spark_jobs.undo.plan import Planner


def run(order: Replay, at: Access, report: Report) -> None:
    asked = asked_part(order, at)
    planner = Planner(tables_of(at), asked.part_of, "after", order.force)
    about = Correction("replay", *asked.bounds, asked.text, report.reason, at.run_id, forced=order.force)
    corrected(at, report, planner, about, asked.names, dry_run=order.dry_run)
