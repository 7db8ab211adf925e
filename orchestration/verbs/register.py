"""Registers the lake's tables in a catalog, and drops names that are no longer right.

It may be killed and run again: each pass compares all of the lake with all of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from cdc_core.errors import ConfigError, LakeError
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Register
from orchestration.verbs.report import Done, Report
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.catalog.plan import Stale, Wanted
from spark_jobs.catalog.registrar import Registrar
from spark_jobs.catalog.session_catalog import SessionCatalog
from spark_jobs.catalog.standing import followed, table_at
from spark_jobs.following.now import refresh_view
from spark_jobs.following.pending import Follows
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions


def run(order: Register, at: Access, report: Report) -> None:
    rules = at.lake.catalog
    if order.catalog and (rules is None or rules.catalog != order.catalog):
        rules = replace(rules or CatalogRules(), catalog=order.catalog)
    if rules is None:
        hint = "Set catalog in defs.yaml, or give --catalog spark_catalog."
        raise ConfigError("no catalog is named", place=at.destination, hint=hint)
    with at.sessions() as sessions:
        register(rules, at, sessions, report)


def register(rules: CatalogRules, at: Access, sessions: Sessions, report: Report) -> None:
    """Brings the catalog to what the lake has. A table that fails does not stop the others. Raises LakeError for a
    lake, a Spark or a catalog that does not answer."""
    lake = Lake(at.lake.root, storage=at.lake.storage, catalog=rules, unions=at.lake.unions)
    notes = CatalogNotes(lake, at.destination, at.client_id)
    with sessions.take() as spark:
        work = Registrar(lake, notes, rules, SessionCatalog(spark, rules.catalog))
        plan = work.look()
        work.begin()
        follows = Follows(lake, at.destination, at.client_id)
        todo: list[tuple[str, Callable[[], Done]]] = []
        todo += [(table_at(lake, one.path), partial(_drop, work, one)) for one in plan.stale]
        todo += [(one.table, partial(_register, work, one)) for one in plan.missing if not one.is_view]
        todo += [(table, partial(_refuse, why)) for table, why in plan.refused.items()]
        todo += [(followed(one), partial(_view, sessions, follows, one)) for one in plan.missing if one.is_view]
        for table, act in todo:
            report.each(table, act)
        settled = work.settle()
        if not todo:
            report.one(at.destination, lambda: _whole(plan.right, rules), "store")
    if not settled:
        hint = f"What failed is tried again, ever more seldom; at once by: sluice register {at.destination}."
        raise LakeError("some tables are not registered yet", place=rules.catalog, hint=hint)


def _register(work: Registrar, table: Wanted) -> Done:
    work.register(table)
    return Done(f"registered as {table.name}", {"name": str(table.name), "path": table.path})


def _drop(work: Registrar, stale: Stale) -> Done:
    work.drop(stale)
    return Done(f"no longer registered as {stale.entry.name}", {"dropped": str(stale.entry.name), "path": stale.path})


def _refuse(why: str) -> Done:
    remedy = "Give it another name by the templates of `catalog` in defs.yaml, or drop what has the name."
    return Done(f"not registered: {why}. {remedy}", {"error": why, "hint": remedy}, good=False)


def _view(sessions: Sessions, follows: Follows, view: Wanted) -> Done:
    error = refresh_view(sessions, follows, followed(view))
    return Done(error or f"has the view {view.name}", {"name": str(view.name)}, good=not error)


def _whole(right: Sequence[Wanted], rules: CatalogRules) -> Done:
    tables = sum(not one.is_view for one in right)
    return Done(f"the catalog {rules.catalog} has all {tables} tables", {"tables": tables, "catalog": rules.catalog})
