"""A code location with the real definitions, whose runs can be held at the points of `tests.faults.points`.

It runs the code of the product; some of its functions are wrapped with a place to wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cdc_core.contract.claim import Claim, TableRange
from orchestration.assets.drain import Drain
from orchestration.definitions import defs
from spark_jobs.apply import batch as apply_batch
from spark_jobs.apply import together
from spark_jobs.apply.ddl import follow
from spark_jobs.apply.ddl.standing import DdlTarget
from spark_jobs.apply.result import BatchResult, TableResult
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.apply.table import Batch
from spark_jobs.session import Sessions
from spark_jobs.write.order import Order, Outcome
from tests.faults.points import ACKED, CLAIMED, COMMITTED, NOTED, ONE_ALTERED, ONE_COMMITTED, ONE_MADE, VARIABLE, Points

__all__ = ["defs"]

_points = Points(Path(os.environ[VARIABLE]))
_apply, _apply_table, _note, _report = SparkLake.apply, apply_batch.apply_table, SparkLake.note, Drain._report
_write_all, _create, _alter = together.write_all, follow.create, follow.alter
_one_at_a_time = threading.Lock()
_committed: set[int] = set()  # batches of which a table is in the lake


def _held_apply(lake: SparkLake, claim: Claim, *rest: Any) -> BatchResult:
    _points.at_work()
    _points.hold(CLAIMED)
    return _apply(lake, claim, *rest)


def _held_apply_table(batch: Batch, table: TableRange) -> TableResult:
    """While ONE_COMMITTED is armed, tables are applied one by one, so that at one moment exactly one is committed."""
    if not _points.awaits(ONE_COMMITTED):
        return _apply_table(batch, table)
    with _one_at_a_time:
        if batch.claim.batch_id in _committed:
            _points.hold(ONE_COMMITTED)
        result = _apply_table(batch, table)
        if not result.replayed:
            _committed.add(batch.claim.batch_id)
        return result


def _held_write_all(sessions: Sessions, orders: Sequence[Order], tasks: int) -> list[Outcome]:
    """The same for tables that one job writes."""
    if not _points.awaits(ONE_COMMITTED) or len(orders) < 2:
        return _write_all(sessions, orders, tasks)
    first = _write_all(sessions, orders[:1], tasks)
    _points.hold(ONE_COMMITTED)
    return first + _write_all(sessions, orders[1:], tasks)


def _held_after(point: str, follows: Callable[..., str]) -> Callable[..., str]:
    """While the point is armed, statements of this kind are followed one by one."""

    def followed(at: DdlTarget, *rest: Any) -> str:
        if not _points.awaits(point):
            return follows(at, *rest)
        with _one_at_a_time:
            outcome = follows(at, *rest)
            _points.hold(point)
            return outcome

    return followed


def _held_note(lake: SparkLake, claim: Claim, *rest: Any) -> None:
    _points.hold(COMMITTED)
    _note(lake, claim, *rest)
    _points.hold(NOTED)


def _held_report(drain: Drain, *rest: Any) -> None:
    _points.hold(ACKED)
    _report(drain, *rest)


SparkLake.apply = _held_apply  # type: ignore[method-assign]
SparkLake.note = _held_note  # type: ignore[method-assign]
apply_batch.apply_table = _held_apply_table
together.write_all = _held_write_all
follow.create = _held_after(ONE_MADE, _create)
follow.alter = _held_after(ONE_ALTERED, _alter)
Drain._report = _held_report  # type: ignore[method-assign]
