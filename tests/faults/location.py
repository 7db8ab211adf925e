"""A code location with the real definitions, whose runs can be held at the points of `tests.faults.points`.

What runs is the product's own code; around some of its functions stands a place to wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdc_core.session.claim import Claim, TableRange
from orchestration.applier import SparkLake
from orchestration.definitions import defs
from orchestration.drain import Drain
from spark_jobs import merge
from spark_jobs.checks import TableResult
from tests.faults.points import ACKED, CLAIMED, COMMITTED, NOTED, ONE_COMMITTED, VARIABLE, Points

__all__ = ["defs"]

_points = Points(Path(os.environ[VARIABLE]))
_apply, _apply_table, _note, _report = SparkLake.apply, merge.apply_table, SparkLake.note, Drain._report
_one_at_a_time = threading.Lock()
_committed: set[int] = set()  # batches of which a table is in the lake


def _held_apply(lake: SparkLake, claim: Claim, *rest: Any) -> list[TableResult]:
    _points.at_work()
    _points.hold(CLAIMED)
    return _apply(lake, claim, *rest)


def _held_apply_table(batch: merge.Batch, table: TableRange) -> TableResult:
    """While that point is armed the tables go one by one, so that a moment comes with exactly one committed."""
    if not _points.awaits(ONE_COMMITTED):
        return _apply_table(batch, table)
    with _one_at_a_time:
        if batch.claim.batch_id in _committed:
            _points.hold(ONE_COMMITTED)
        result = _apply_table(batch, table)
        if not result.replayed:
            _committed.add(batch.claim.batch_id)
        return result


def _held_note(lake: SparkLake, claim: Claim, results: Sequence[TableResult], run_id: str) -> None:
    _points.hold(COMMITTED)
    _note(lake, claim, results, run_id)
    _points.hold(NOTED)


def _held_report(drain: Drain, *rest: Any) -> None:
    _points.hold(ACKED)
    _report(drain, *rest)


SparkLake.apply = _held_apply  # type: ignore[method-assign]
SparkLake.note = _held_note  # type: ignore[method-assign]
merge.apply_table = _held_apply_table
Drain._report = _held_report  # type: ignore[method-assign]
