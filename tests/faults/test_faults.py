"""Each part killed at each point of a batch's way: nothing is lost, nothing comes twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from dagster import DagsterRunStatus

from tests.faults.points import ACKED, CLAIMED, COMMITTED, NOTED, ONE_COMMITTED
from tests.faults.stack import PARTS, Stack

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(300)]

REACH, RECOVER = 90.0, 120.0  # seconds


@pytest.fixture(autouse=True)
def _disarmed(stack: Stack) -> Iterator[None]:
    yield
    stack.points.disarm()


def hold(stack: Stack, point: str) -> str:
    """New work, and a run held with it at the point. The run's id."""
    stack.points.arm(point)
    stack.bank.work()
    pid = stack.wait(f"a run at {point}", REACH, stack.points.reached)
    assert pid
    return stack.runs()[0].run_id


@pytest.mark.parametrize("point", [CLAIMED, ONE_COMMITTED, COMMITTED, NOTED, ACKED])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_killed_at_a_point(stack: Stack, part: str, point: str) -> None:
    """The run meets the missing part; then it comes back, and everything is as at the source."""
    run_id = hold(stack, point)

    stack.kill(part)
    stack.points.disarm()
    time.sleep(0.5)
    stack.restart(part)

    assert stack.differences(RECOVER) == []
    check_told(stack, part, point, run_id)


def check_told(stack: Stack, part: str, point: str, run_id: str) -> None:
    """Dagster shows what happened: a killed run as failed, a part that was away with what to do about it."""
    if part == "run":
        run = stack.wait("the killed run to be failed", 30, lambda: _ended(stack, run_id))
        assert run == DagsterRunStatus.FAILURE


def _ended(stack: Stack, run_id: str) -> DagsterRunStatus | None:
    run = stack.run(run_id)
    return run.status if run.is_finished else None
