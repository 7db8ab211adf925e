"""The first parts of many logs, merged into small tables and histories by one job of Spark.

Each table's part is what `Merger.next` would merge, with the same commit. A table that the job does not commit is left
to a statement of its own, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import structlog

from cdc_core.errors import SluiceError
from spark_jobs.apply.table import FUSED
from spark_jobs.following.merged import Merged
from spark_jobs.lake.failures import tried_twice
from spark_jobs.session import Sessions
from spark_jobs.write.fused import write_all
from spark_jobs.write.order import Order, Outcome

log = structlog.get_logger(__name__)


class LeftAlone(Exception):
    """The table is left to a statement of its own."""


@dataclass(frozen=True, slots=True)
class Readied:
    """What the job is to write; and what a run is told of it, by its outcome, of so many that the job took together."""

    order: Order
    told: Callable[[Outcome, int], Merged]


Ready = Callable[[str], Readied | Merged | None]  # `Merged` where there is nothing to merge; None for a statement


def merge_together(sessions: Sessions, tasks: int, ready: Ready, told: Mapping[str, Future[Merged]]) -> None:
    """Merges the first part of each table. Each future gets what `Merger.next` gives or raises, or raises LeftAlone."""
    try:
        with ThreadPoolExecutor(tasks, thread_name_prefix="ready") as pool:
            done = dict(zip(told, pool.map(lambda table: _tried(ready, table, told[table]), told), strict=True))
            found = {table: one for table, one in done.items() if one is not None}
            orders = [one.order for one in found.values()]
            outcomes = write_all(sessions, orders, tasks) if orders else []
            list(pool.map(lambda table, one: _tell(table, found[table], one, len(found), told[table]), found, outcomes))
    finally:
        for future in told.values():
            if not future.done():
                future.set_exception(LeftAlone())


def _tried(ready: Ready, table: str, told: Future[Merged]) -> Readied | None:
    """None where the future has been told, or is left."""
    try:
        found = tried_twice(lambda: ready(table))
    except SluiceError as error:
        told.set_exception(error)
        return None
    if isinstance(found, Merged):
        told.set_result(found)
        return None
    return found


def _tell(table: str, ready: Readied, outcome: Outcome, share: int, told: Future[Merged]) -> None:
    if outcome.why:
        log.info("the table goes by a statement of its own", table=table, why=outcome.why)
        told.set_exception(LeftAlone())
    else:
        told.set_result(replace(ready.told(outcome, share), engine=FUSED))
