"""A table reloaded from its change log, without the source, from one of its earlier versions or nothing.

It may be killed and run again: the table is replaced in one commit, which is there or not.
"""

from __future__ import annotations

from typing import Any

from orchestration.names import PLACE, place_text
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Remake
from orchestration.verbs.report import Done, Report
from spark_jobs.following.now import refresh_view
from spark_jobs.following.pending import Follows
from spark_jobs.load.base import RebuildBase, base_of, copied_version
from spark_jobs.load.remake import Remaker


def run(order: Remake, at: Access, report: Report) -> None:
    report.one(order.table, lambda: _remade(order, at))


def _remade(order: Remake, at: Access) -> Done:
    """Reloads the table. Raises LakeError if it cannot be reloaded from there; nothing is written then."""
    follows = Follows(at.lake, at.destination, at.client_id)
    version = begin_of(follows, order.table, order.begin)
    if order.dry_run:
        base = base_of(follows, order.table, version)
        return Done(f"{_text(base)}. Nothing was done.", _facts(base) | {"dry_run": True})
    with at.sessions() as sessions:
        made = Remaker(follows, sessions, at.run_id).table(order.table, version)
        view_error = refresh_view(sessions, follows, order.table)
    facts = _facts(made.base) | {"dry_run": False, "rows": made.rows, "delta_version": made.delta_version}
    facts |= {"seconds": round(made.seconds, 1)} | ({"view_error": view_error} if view_error else {})
    text = f"{_text(made.base)}: {made.rows:,} rows, in version {made.delta_version}"
    return Done(f"{text}\n{view_error}".strip(), facts, reloaded=True)


def begin_of(follows: Follows, table: str, begin: str) -> int | None:
    """Returns the version from which a table is reloaded, or None for nothing. Raises LakeError for a table without a
    copy."""
    if begin == "copy":
        return copied_version(follows, table)
    return None if begin == "nothing" else int(begin)


def _facts(base: RebuildBase) -> dict[str, Any]:
    epoch, place = base.place
    begin = "nothing" if base.version is None else base.version
    facts = {"begin": begin, "epoch": epoch, "applied": place, "log_rows_at_most": base.rows}
    facts[PLACE] = place_text(epoch, place)
    return facts | ({"undone": "; ".join(base.undone)[:2000]} if base.undone else {})


def _text(base: RebuildBase) -> str:
    begin = "nothing" if base.version is None else f"version {base.version}"
    undone = f"; undone: {', '.join(base.undone)}" if base.undone else ""
    return f"from {begin} and at most {base.rows} rows of its log, as of {base.place[1]}{undone}"
