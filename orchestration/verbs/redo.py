"""An undo taken back, by the rows that it noted: see `correcting`."""

from __future__ import annotations

from cdc_core.errors import ConfigError
from orchestration.verbs.access import Access
from orchestration.verbs.correcting import corrected, corrections_of, tables_of
from orchestration.verbs.orders import Redo
from orchestration.verbs.report import Report
from spark_jobs.lake.corrections import CorrectedTable, Correction, redoable
from spark_jobs.undo.parts import noted_part
from spark_jobs.undo.plan import Planner

_SHOWN = 5  # corrections that an error names


def run(order: Redo, at: Access, report: Report) -> None:
    noted = corrections_of(at)
    known = noted.tables()
    found = {one.table: one for one in redoable(known, order.number)}
    if missing := [name for name in order.tables if name not in found] or ([] if found else ["any table"]):
        message = f"correction {order.number} changed no row of {', '.join(missing)}"
        raise ConfigError(message, place=noted.path, hint=_known(known))
    about = next(iter(found.values())).correction
    planner = Planner(tables_of(at), lambda table: noted_part(noted, found[table]), "before", order.force)
    redo = Correction(
        "redo", about.epoch, about.start, about.end, about.asked, report.reason, at.run_id, about.number, order.force
    )
    corrected(at, report, planner, redo, order.tables or sorted(found), dry_run=order.dry_run)


def _known(found: list[CorrectedTable]) -> str:
    last = [one.correction for one in found if not one.table][-_SHOWN:]
    listed = "; ".join(f"{one.number}: {one.kind} of {one.asked} ({one.reason})" for one in last)
    return f"The last ones are {listed}." if listed else "The lake has no correction yet."
