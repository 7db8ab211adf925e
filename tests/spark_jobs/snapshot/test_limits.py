"""The pace that a rate sets, and limits that make no sense."""

from __future__ import annotations

import pytest

from cdc_core.errors import ConfigError
from spark_jobs.snapshot.limits import Limits, RateLimit


class Clock:
    """Moves by what is slept, and by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_rows_wait_for_their_turn() -> None:
    """So many a second, and no burst after a pause of the reader."""
    clock = Clock()
    pace = RateLimit(100, clock, clock.sleep)
    for _ in range(10):
        pace.passed(50)
    assert clock.now == pytest.approx(5.0)
    clock.now += 60
    pace.passed(100)
    pace.passed(100)
    assert clock.now == pytest.approx(66.0)


def test_without_a_rate_nobody_waits() -> None:
    """Any number of rows at a time."""
    clock = Clock()
    pace = RateLimit(None, clock, clock.sleep)
    pace.passed(10**9)
    assert clock.now == 0
    assert pace.rows > 10**9


def test_connections_share_the_rate() -> None:
    """Together they are no faster than one."""
    each = Limits(rows_per_second=1000, connections=8).share(4)
    assert (each.rows_per_second, each.connections) == (250, 1)
    assert Limits().share(4).rows_per_second is None


def test_a_rate_below_the_connections_takes_fewer_of_them() -> None:
    """All shares together are the rate, however low it is; no share is below a row a second."""
    cases = ((2, 4, 9, 2), (1, 4, 9, 1), (1.5, 4, 9, 1), (100, 4, 3, 3), (100, 4, 9, 4), (float("inf"), 4, 9, 4))
    for rate, connections, chunks, count in cases:
        limits = Limits(rate, connections)
        assert limits.shares(chunks) == count
        each = limits.share(count).rows_per_second
        assert each is not None
        assert each >= 1
        assert each * count == pytest.approx(rate)
    assert Limits(None, 4).shares(9) == 4
    assert Limits(None, 4).shares(0) == 1


@pytest.mark.parametrize(
    "limits", [{"rows_per_second": 0}, {"rows_per_second": -1.5}, {"connections": 0}, {"batch_bytes": 5}]
)
def test_limits_that_let_nothing_through_are_refused(limits: dict[str, float]) -> None:
    """With their name, and what to give."""
    name = next(iter(limits))
    with pytest.raises(ConfigError, match=name) as caught:
        Limits(**limits)  # type: ignore[arg-type]
    assert f"Give {name} at least" in caught.value.hint
