"""Tables, change logs and histories kept healthy while the stream goes on.

It may be killed and run again: what is done stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from cdc_core.errors import SluiceError
from cdc_core.schema.names import split_name
from orchestration.freshness import parse_freshness
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Maintain
from orchestration.verbs.register import register
from orchestration.verbs.report import Done, Report
from spark_jobs.following.now import refresh_view
from spark_jobs.following.pending import Follows
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained
from spark_jobs.maintain.retention import log_hours
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.session import Sessions

_QUIET_SECONDS = 20.0  # more than a run lingers and waits for rows


def run(order: Maintain, at: Access, report: Report) -> None:
    asked, lake = set(order.tables), at.lake
    kept = _kept(order, at)
    with at.connect() as connector, at.sessions() as sessions:
        quiet, stays = _rhythm(order, at)
        upkeep = Upkeep(connector, lake, sessions, quiet, stays, readers=order.readers)
        follows = Follows(lake, at.destination, at.client_id)
        logs = LogUpkeep(follows, view=partial(refresh_view, sessions, follows), readers=order.readers)
        for table in order.tables or [one.name for one in connector.tables()]:
            report.each(table, partial(_work, upkeep.table, *split_name(table)))
        for table in lake.logs(at.destination):
            if asked and table not in asked:
                continue
            report.each(table, partial(_work, logs.log, table, kept(table)), "log")
            if _may_have_history(upkeep, table):
                report.each(table, partial(_work, upkeep.history, table), "history")
        if lake.catalog is not None and not asked:
            _register(lake.catalog, at, sessions, report)


def _register(rules: CatalogRules, at: Access, sessions: Sessions, report: Report) -> None:
    """Repairs the catalog. One that is down fails this alone."""
    try:
        register(rules, at, sessions, report)
    except SluiceError as error:
        report.each(at.destination, partial(_fail, error), "store")


def _fail(error: SluiceError) -> Done:
    raise error


def _may_have_history(upkeep: Upkeep, table: str) -> bool:
    """Also where that is not known: its upkeep fails with the same error then, and is reported."""
    try:
        return upkeep.has_history(table)
    except SluiceError:
        return True


def _work(maintain: Callable[..., Maintained], *of: Any) -> Done:
    found = maintain(*of)
    return Done(found.text, {name: value for name, value in found.to_dict().items() if name != "table"})


def _kept(order: Maintain, at: Access) -> Callable[[str], Retention]:
    """How long each change log keeps its rows. The order's time is not for one that is all that there is of its table.
    Raises ConfigError for what is no time."""
    declared = at.declared.kept or (lambda _: Retention())
    if not order.log_retention:
        return declared
    hours = log_hours(order.log_retention)

    def kept(table: str) -> Retention:
        known = declared(table)
        return known if known.alone else replace(known, hours=hours)

    return kept


def _rhythm(order: Maintain, at: Access) -> tuple[float, bool]:
    """How long nothing waits until no run lingers any more; one that waits for more rows does so without a claim. And
    whether a run is always there."""
    declared, freshness = at.declared, parse_freshness(order.freshness or at.declared.freshness)
    stays = freshness.asap if order.freshness else declared.stays
    waits = 0.0 if stays else min(freshness.seconds, declared.max_seconds)
    return _QUIET_SECONDS + declared.linger_seconds + waits, stays
