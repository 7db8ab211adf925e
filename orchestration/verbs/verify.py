"""Tables compared with the source while others write, and their rows repaired where that is asked.

It may be killed and run again: what it has repaired does not differ any more.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.schema.names import split_name
from orchestration.source import source_of
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Verify
from orchestration.verbs.report import Done, Report
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.history import histories_compared
from spark_jobs.verify.repair import RowRepair
from spark_jobs.verify.verified import Verified


def run(order: Verify, at: Access, report: Report) -> None:
    with at.connect() as connector, at.sessions() as sessions:
        comparer = comparison(at, connector, order.timeout_seconds)
        if not order.tables:  # a RENAME that neither service nor lake has followed leaves them the old name
            comparer.await_lake()
        named = order.tables or [table.name for table in connector.tables()]
        besides = [] if order.tables else sorted({*at.lake.live_tables(connector.destination)} - {*named})
        if order.repair:
            comparer = replace(comparer, settle=RowRepair(sessions, at.run_id).of)
        for table in named:
            report.each(table, partial(_compared, comparer, table, report))
        for table in besides:
            if found := next(compared(comparer, [], [split_name(table)]), None):
                report.each(table, partial(outcome, found))
        for table in named:
            if found := next(histories_compared(comparer, [table]), None):
                report.each(table, partial(outcome, found), "history")


def comparison(at: Access, connector: Connector, timeout_seconds: float) -> TableComparer:
    """Returns the comparer of the destination's tables. Raises ConfigError when the source's configuration is
    unknown."""
    return TableComparer(connector, source_of(at.instance, connector), at.lake, timeout_seconds)


def _compared(comparer: TableComparer, table: str, report: Report) -> Done:
    report.progress(f"{table}: is compared")
    return outcome(next(compared(comparer, [split_name(table)])))


def outcome(found: Verified) -> Done:
    """Returns the report of a comparison."""
    return Done(f"{text(found)}. {found.remedy}".strip(), facts(found), good=not found.differences)


def facts(found: Verified) -> dict[str, Any]:
    """Returns the counts, where they were taken, and the remedy."""
    return {name: value for name, value in found.to_dict().items() if name != "table"}


def text(found: Verified) -> str:
    """For people."""
    counted = found.comparison
    if counted is None:
        return f"not compared: {found.error}"
    repaired = f"{found.repaired:,} rows repaired; " if found.repaired else ""
    if counted.quarantined:
        repaired += f"{counted.quarantined:,} rows wait in the quarantine; "
    purposely = "".join(f"; {count:,} different on purpose by {name}" for name, count in found.on_purpose.items())
    if not found.differences:
        return f"{repaired}{counted.lake_rows:,} rows, as at the source{purposely}"
    rows = f"{counted.missing:,} rows missing, {counted.extra:,} extra, {counted.different:,} different"
    return "; ".join([f"{repaired}{rows}", *found.definition]) + purposely
