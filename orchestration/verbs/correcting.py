"""What undo, redo and replay have in common: all tables planned, then shown or put, one after the other.

A table that cannot be corrected refuses the order before anything is written. It may be killed and run again: rows that
were put are not put twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError, LakeError
from orchestration.verbs.access import Access
from orchestration.verbs.report import Done, Report
from spark_jobs.lake.corrections import Correction, Corrections
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.parked import Parking
from spark_jobs.load.hold import Hold, under_hold
from spark_jobs.load.result import WentOn
from spark_jobs.past.changed import ChangedRow, changed_rows
from spark_jobs.session import Sessions
from spark_jobs.undo.commit import Corrected, Corrector
from spark_jobs.undo.decision import Put, RowDecision
from spark_jobs.undo.plan import Planner, TablePlan

EXAMPLES = 10  # rows that are shown of each kind


def corrected(
    at: Access, report: Report, planner: Planner, correction: Correction, names: Sequence[str], *, dry_run: bool
) -> None:
    """Plans the tables, then shows what would be done, or does it. Raises LakeError for a table that cannot be
    corrected, ConfigError for an order without a reason. If the last order was the same, and ended before all tables
    were done, it is continued under its number, so that a redo of that takes all of it back."""
    if not dry_run:
        check_reason(report)
    plans = []
    for name in names:
        report.progress(f"{name}: its rows are compared")
        plans.append(planner.plan(name))
    if dry_run:
        for plan in plans:
            report.each(plan.table, partial(_shown, plan))
        return
    planned = {plan.table: len(plan.decision.puts) for plan in plans}
    with at.connect() as connector, at.sessions() as sessions:
        check_no_snapshot(connector, list(planned))
        numbered, done = corrections_of(at).unfinished(correction, planned)
        if not numbered.number:
            numbered = corrections_of(at).asked(correction, datetime.now(UTC), planned)
        for plan in plans:
            if plan.table in done:
                report.each(plan.table, partial(_done_before, numbered, plan))
            else:
                report.each(plan.table, partial(_put, connector, sessions, planner, numbered, plan))


def check_no_snapshot(connector: Connector, tables: Sequence[str]) -> None:
    """Raises LakeError for a table that is read by a snapshot: its rows will be replaced by the source's."""
    opened = {one.table for one in connector.client_status().snapshots if not one.broken}
    for table in (one for one in tables if one in opened):
        cancel = f"sluice snapshot {connector.destination} {table} --cancel"
        hint = f"Do it again when the snapshot is in the lake; or cancel it: {cancel}. Nothing was put."
        raise LakeError("a snapshot of the table is open, which would replace its rows", place=table, hint=hint)


def check_reason(report: Report) -> None:
    """Raises ConfigError for a report without a reason."""
    if not report.reason.strip():
        hint = "Say why: others read it later. What it would mean is shown without a reason (--dry-run)."
        raise ConfigError("the reason is empty", place="--reason", hint=hint)


def corrections_of(at: Access) -> Corrections:
    return Corrections(at.lake, at.destination, at.client_id)


def tables_of(at: Access) -> ClientTables:
    return ClientTables(at.lake, at.destination, at.client_id)


def _put(connector: Connector, sessions: Sessions, planner: Planner, correction: Correction, plan: TablePlan) -> Done:
    """Puts the rows of one table while a claim is held, planned anew if a run wrote the table meanwhile."""
    tables, given = planner.tables, iter([plan])
    corrector = Corrector(tables, sessions, planner)
    parking = Parking(tables.lake, tables.destination, tables.client_id)

    def work(hold: Hold) -> Corrected:
        check_no_snapshot(connector, [plan.table])
        return corrector.correct(correction, next(given, None) or planner.plan(plan.table), hold.check)

    with parking.turn(plan.table):
        try:
            made = under_hold(connector, f"{correction.kind}-{uuid.uuid4().hex[:8]}", work, time.sleep)
        except WentOn as error:
            hint = "Nothing was put. Do it again, where the table is written less."
            raise LakeError("runs keep writing the table", place=tables.path(plan.table), hint=hint) from error
    facts = _facts(made.plan) | {"dry_run": False, "delta_version": made.version}
    done = (
        f"{correction.kind} {correction.number}, version {made.version}" if made.version else "nothing was left to do"
    )
    return Done(f"{_text(made.plan)}\n{done}", facts | {"number": correction.number})


def _done_before(correction: Correction, plan: TablePlan) -> Done:
    """A table into which a run put its rows before it died."""
    facts = _facts(plan) | {"dry_run": False, "delta_version": None, "number": correction.number}
    return Done(f"{_text(plan)}\n{correction.kind} {correction.number} was done before", facts)


def _shown(plan: TablePlan) -> Done:
    return Done(f"{_text(plan)}\nNothing was done.", _facts(plan) | {"dry_run": True})


def _facts(plan: TablePlan) -> dict[str, Any]:
    decision, part = plan.decision, plan.part
    counts = {"put": len(decision.puts), "already": decision.already, "changed_since": len(decision.changed)}
    facts = counts | {"left": decision.left_alone, "rows_from": part.origin, "unknown": part.unknown}
    key = plan.state.primary_key
    facts["examples"] = _lines(_rows(decision, decision.puts.values()), key)
    facts["changed_examples"] = _lines(_changed(decision), key)
    return facts


def _text(plan: TablePlan) -> str:
    """For people: the counts, and some rows."""
    decision, facts = plan.decision, _facts(plan)
    lines = [f"{facts['put']:,} rows put back, {decision.already:,} as they should be already"]
    lines += [f"  {line}" for line in facts["examples"]]
    if decision.changed:
        what = "put all the same" if not decision.left_alone else "left (--force puts them too)"
        lines.append(f"{len(decision.changed):,} rows were changed since, and are {what}; now they are")
        lines += [f"  {line}" for line in facts["changed_examples"]]
    if plan.part.unknown:
        lines.append(f"not known: {plan.part.unknown}")
    return "\n".join(lines)


def _rows(decision: RowDecision, puts: Iterable[Put]) -> list[ChangedRow]:
    return list(changed_rows(decision.images(islice(puts, EXAMPLES)).to_batches()))


def _changed(decision: RowDecision) -> list[ChangedRow]:
    """The rows that were changed since: what the part of the past left, and what they are now."""
    return _rows(decision, (one.since for one in decision.changed.values()))


def _lines(rows: Sequence[ChangedRow], key: Sequence[str]) -> list[str]:
    return [f"{row.kind} {row.key_text(key)}  {row.columns_text(key)}".rstrip() for row in rows]
