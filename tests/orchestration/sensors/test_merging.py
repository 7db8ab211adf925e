"""When a run that merges logs starts."""

from __future__ import annotations

import dagster as dg

from orchestration.sensors.merging import decide
from orchestration.sensors.runs import Runs
from orchestration.settings import Trigger
from spark_jobs.following.pending import Part, Pending


def waiting(rows: int, since: float) -> Pending:
    return Pending("shop.orders", Part(0, 1, 2, rows, since), rows, since, 2, None, None)  # type: ignore[arg-type]


def test_a_run_starts_for_enough_rows_or_old_ones() -> None:
    """Else the sensor says what it waits for."""
    trigger = Trigger(minimum_rows=100, freshness_seconds=60)
    assert isinstance(decide("shop", [], Runs(), trigger, 0), dg.SkipReason)
    assert isinstance(decide("shop", [waiting(99, 50.0)], Runs(), trigger, 100.0), dg.SkipReason)
    assert isinstance(decide("shop", [waiting(99, 40.0)], Runs(), trigger, 100.0), dg.RunRequest)
    assert isinstance(decide("shop", [waiting(50, 99.0), waiting(50, 99.0)], Runs(), trigger, 100.0), dg.RunRequest)


def test_a_run_that_failed_is_waited_for() -> None:
    """Longer after each failure; then the key is another one."""
    late = Runs(last="abcdefgh", last_ended=100.0, failures=1)
    assert isinstance(decide("shop", [waiting(1, 0.0)], late, Trigger(), 101.0), dg.SkipReason)
    again = decide("shop", [waiting(1, 0.0)], late, Trigger(), 200.0)
    first = decide("shop", [waiting(1, 0.0)], Runs(), Trigger(), 200.0)
    assert isinstance(again, dg.RunRequest)
    assert isinstance(first, dg.RunRequest)
    assert again.run_key != first.run_key
