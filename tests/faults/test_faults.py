"""Each part killed at each point on the way of a batch: nothing is lost, nothing comes twice, and Dagster shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

import psutil
import pytest
from dagster import DagsterRunStatus

from tests.faults.points import ACKED, CLAIMED, COMMITTED, NOTED, ONE_ALTERED, ONE_COMMITTED, ONE_MADE
from tests.faults.stack import PARTS, Stack
from tests.support.marks import EVERYWHERE, in_turn, mostly_full

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(1200)]

REACH, RECOVER = 240.0, 300.0  # seconds, on a machine that is busy with other things
POINTS = (CLAIMED, ONE_MADE, ONE_ALTERED, ONE_COMMITTED, NOTED, ACKED)
BY_DEFAULT = (  # each point, and each part once; a run dies with its code server
    (CLAIMED, "mysql"),
    (ONE_MADE, "run"),
    (ONE_ALTERED, "run"),
    (ONE_COMMITTED, "spark"),
    (NOTED, "zookeeper"),
    (ACKED, "service"),
)
IN_TURN = (  # a run meets the part's lack as it does at another point
    (ONE_MADE, "service"),
    (ONE_MADE, "spark"),
    (ONE_ALTERED, "service"),
    (ACKED, "mysql"),
)
BY_HAND = (  # nobody needs the part there, so that it is as at the point before
    (ONE_MADE, "mysql"),
    (ONE_MADE, "zookeeper"),
    (ONE_ALTERED, "mysql"),
    (ONE_ALTERED, "zookeeper"),
    (ONE_COMMITTED, "mysql"),
    (ONE_COMMITTED, "zookeeper"),
    (NOTED, "mysql"),
    (NOTED, "spark"),
    (ACKED, "spark"),
    (ACKED, "zookeeper"),
)
WAIT = {*IN_TURN} - {*in_turn(IN_TURN)}
CASES = [case for case in product(POINTS, PARTS) if EVERYWHERE or case not in {*BY_HAND, *WAIT}]
TWICE = [("service", COMMITTED), ("run", ONE_ALTERED), *in_turn([("run", COMMITTED), ("run", ONE_MADE)])]
TWICE_BY_HAND = [("spark", ONE_COMMITTED), ("zookeeper", COMMITTED), ("mysql", CLAIMED)]
NOTICED = {  # where a run cannot but meet the missing part, and one of the words with which Dagster shows it
    "service": (POINTS, ("the service does not answer", "cannot be acked", "is not outstanding", "was lost")),
    "spark": ((CLAIMED, ONE_MADE, ONE_ALTERED, ONE_COMMITTED), ("the Spark Connect server does not answer",)),
    "zookeeper": ((NOTED,), ("ZooKeeper at 127.0.0.1",)),
}


@pytest.fixture(autouse=True)
def _disarmed(stack: Stack) -> Iterator[None]:
    yield
    stack.points.disarm()


def hold(stack: Stack, point: str) -> str:
    """Writes new work and waits until a run is held with it at the point. Returns the id of the run."""
    stack.points.arm(point)
    stack.bank.work()
    stack.bank.alter()
    stack.bank.make()
    stack.wait(f"a run at {point}", REACH, stack.points.reached)
    return stack.runs()[0].run_id


@pytest.mark.parametrize(("point", "part"), mostly_full(CASES, lambda case: case in BY_DEFAULT, days=2))
def test_a_part_killed_at_a_point(stack: Stack, part: str, point: str) -> None:
    """The run goes on without the part. Then the part comes back, and the lake is as the source."""
    run_id = hold(stack, point)
    points, words = NOTICED.get(part, ((), ()))

    stack.kill(part)
    stack.points.disarm()
    if point in points:
        stack.wait("Dagster to tell", REACH, lambda: any(word in "\n".join(stack.errors(run_id)) for word in words))
    else:
        time.sleep(0.5)
    stack.restart(part)

    assert stack.differences(RECOVER) == []
    if part == "run":
        assert ended(stack, run_id) == DagsterRunStatus.FAILURE
        assert stack.runs()[0].run_id != run_id


@pytest.mark.in_turn(2)
@pytest.mark.full
@pytest.mark.parametrize(("part", "point"), TWICE + TWICE_BY_HAND * EVERYWHERE)
def test_a_part_killed_twice_in_a_row(stack: Stack, part: str, point: str) -> None:
    """The part is back before the run goes on, and is killed again as soon as a run is at the same point."""
    hold(stack, point)
    stack.kill(part)
    stack.restart(part)

    hold(stack, point)
    stack.kill(part)
    stack.points.disarm()
    stack.restart(part)

    assert stack.differences(RECOVER) == []


@pytest.mark.parametrize("point", [CLAIMED, pytest.param(ONE_COMMITTED, marks=pytest.mark.full)])
def test_a_run_terminated_in_dagster_gives_its_claim_back(stack: Stack, point: str) -> None:
    """The run is canceled, not failed, and another run takes what it held."""
    run_id = hold(stack, point)
    assert [claim.owner for claim in stack.claims()] == [run_id]

    stack.terminate(run_id)
    stack.points.disarm()

    assert ended(stack, run_id) == DagsterRunStatus.CANCELED
    stack.wait("the claim to be given back", REACH, lambda: run_id not in [claim.owner for claim in stack.claims()])
    assert stack.differences(RECOVER) == []


@pytest.mark.in_turn(2)
def test_a_run_that_dies_with_its_code_server(stack: Stack) -> None:
    """As when the machine goes down, nobody is left to watch the process; the run still fails."""
    run_id = hold(stack, CLAIMED)
    process = stack.points.reached()

    stack.dagster.code_server.kill()
    stack.points.disarm()
    assert process is not None
    stack.wait("the run to die", REACH, lambda: not lives(process))
    stack.dagster.code_server.start()

    assert stack.differences(RECOVER) == []
    assert ended(stack, run_id) == DagsterRunStatus.FAILURE
    assert any("process is gone" in error for error in stack.errors(run_id))


def test_after_all_of_it_a_run_succeeds(stack: Stack) -> None:
    """The faults leave nothing behind that keeps the next run from succeeding."""
    stack.bank.work()
    assert stack.differences(RECOVER) == []
    assert ended(stack, stack.runs()[0].run_id) == DagsterRunStatus.SUCCESS


def lives(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ended(stack: Stack, run_id: str) -> DagsterRunStatus:
    stack.wait(f"run {run_id} to end", REACH, lambda: stack.run(run_id).is_finished)
    return stack.run(run_id).status
