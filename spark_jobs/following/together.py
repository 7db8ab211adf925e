"""Merges the first parts of many logs into small tables and histories, by one job of Spark.

Each table's part is the one that `Merger.next` would merge, with the same commit. A table that the job does not commit
is left to its own statement, which reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import structlog

from cdc_core.errors import SluiceError
from spark_jobs.following.merged import Merged
from spark_jobs.lake.failures import tried_twice
from spark_jobs.session import Sessions
from spark_jobs.write.fused import write_all
from spark_jobs.write.order import FUSED, Order, Outcome

log = structlog.get_logger(__name__)


class LeftToStatement(Exception):
    """The table is left to its own statement."""


@dataclass(frozen=True, slots=True)
class Readied:
    """The order for the job, and the `result` of its outcome, for a job that wrote so many orders together."""

    order: Order
    result: Callable[[Outcome, int], Merged]


Ready = Callable[[str], Readied | Merged | None]  # `Merged` if there is nothing to merge; None if it needs a statement


def merge_together(sessions: Sessions, tasks: int, ready: Ready, futures: Mapping[str, Future[Merged]]) -> None:
    """Merges the first part of each table. Each future gets what `Merger.next` returns or raises, or raises
    LeftToStatement."""
    try:
        with ThreadPoolExecutor(tasks, thread_name_prefix="ready") as pool:
            done = pool.map(lambda table: _prepared(ready, table, futures[table]), futures)
            found = {table: one for table, one in zip(futures, done, strict=True) if one is not None}
            orders = [one.order for one in found.values()]
            outcomes = write_all(sessions, orders, tasks) if orders else []
            list(pool.map(partial(_resolve, found, futures), found, outcomes))
    finally:
        for future in futures.values():
            if not future.done():
                future.set_exception(LeftToStatement())


def _prepared(ready: Ready, table: str, future: Future[Merged]) -> Readied | None:
    """Returns what the job is to write for the table; None if the future is resolved, or the table needs a
    statement."""
    try:
        found = tried_twice(lambda: ready(table))
    except SluiceError as error:
        future.set_exception(error)
        return None
    if isinstance(found, Merged):
        future.set_result(found)
        return None
    return found


def _resolve(found: Mapping[str, Readied], futures: Mapping[str, Future[Merged]], table: str, outcome: Outcome) -> None:
    if outcome.why:
        log.info("the table is merged by a separate statement", table=table, why=outcome.why)
        futures[table].set_exception(LeftToStatement())
    else:
        futures[table].set_result(replace(found[table].result(outcome, len(found)), engine=FUSED))
