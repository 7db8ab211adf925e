"""When what went wrong is tried again."""

from __future__ import annotations

import pytest

from cdc_core.retry import Retry, pause_after


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 15.0), (1, 15.0), (2, 30.0), (3, 60.0), (6, 480.0), (7, 600.0), (100_000, 600.0)]
)
def test_each_failure_doubles_the_pause(failures: int, pause: float) -> None:
    """Up to the longest one, however many there were."""
    assert pause_after(failures, 15.0, 600.0) == pause


def test_failures_in_a_row_are_retried_later_and_later() -> None:
    """Until one try lasted."""
    retry = Retry((5.0, 60.0))
    assert retry.ready(0.0)
    pauses = []
    for lasted in (1.0, 1.0, 1.0, 1.0, 1.0, 61.0):
        retry.failed(100.0, lasted)
        pauses.append(next(pause for pause in range(100) if retry.ready(100.0 + pause)))
    assert pauses == [5, 10, 20, 40, 60, 5]
