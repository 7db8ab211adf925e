"""The turns of a run, on a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.storage.tags import POOL_TAG_PREFIX

from cdc_core.contract.claim import Claim
from orchestration.assets.turns import Turns, queued
from orchestration.settings import Limits
from spark_jobs.apply.result import BatchResult, TableResult
from spark_jobs.landing.append import Landed
from tests.support.canal_double import MemoryCanal, MemoryLake


class Time:
    """A clock that sleeping moves; `on_sleep` is called with what it then shows."""

    def __init__(self, on_sleep: Callable[[float], None] = lambda _: None) -> None:
        self.now, self._on_sleep = 0.0, on_sleep

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._on_sleep(self.now)


def turns(canal: MemoryCanal, time: Time, others: Callable[[], bool] = lambda: False, **limits: Any) -> Turns:
    return Turns(Limits(**{"parallelism": 4} | limits), canal, time.clock, time.sleep, others)


def one_batch(made: Turns, canal: MemoryCanal, time: Time, seconds: float) -> None:
    """Claims, takes so long, and acks."""
    claim = canal.get_without_ack(made.pace.rows, owner="run")
    assert claim is not None
    made.begin(claim)
    time.now += seconds
    canal.ack(claim)
    made.end(claim, merged(claim, seconds))


def merged(claim: Claim, seconds: float) -> BatchResult:
    results = MemoryLake().apply(claim, "run", 4, []).applied
    return BatchResult(tuple(TableResult(r.decision, r.commit, merge_seconds=seconds) for r in results))


def test_without_a_freshness_claims_follow_each_other() -> None:
    """And the run ends when nothing comes for as long as it lingers."""
    canal, time = MemoryCanal(batches=2), Time()
    made = turns(canal, time, linger_seconds=7)
    one_batch(made, canal, time, 2.0)
    assert (made.left(300), time.now, made.patience(300), made.stays) == (298, 2.0, 7, False)


def test_a_trickle_waits_for_the_freshness() -> None:
    """Less what the merge takes."""
    canal, time = MemoryCanal(batches=2), Time()
    made = turns(canal, time, freshness="30s")
    assert made.left(300) == 300
    one_batch(made, canal, time, 3.0)
    made.left(300)
    assert 22 < time.now < 27


def test_a_backlog_waits_for_nothing() -> None:
    """The claim was as large as it may be."""
    canal, time = MemoryCanal(batches=2), Time()
    made = turns(canal, time, freshness="30s", batch_size=20)
    one_batch(made, canal, time, 3.0)
    made.left(300)
    assert time.now == 3.0


def test_a_backlog_that_comes_meanwhile_ends_the_wait() -> None:
    """It is looked at every second."""
    canal = MemoryCanal(batches=1)

    def fill(now: float) -> None:
        canal.put = 1_000_000 if now >= 8 else canal.put

    time = Time(fill)
    made = turns(canal, time, freshness="30s")
    one_batch(made, canal, time, 3.0)
    made.left(300)
    assert 8 <= time.now < 9
    assert made.pace.rate > 0


def test_the_run_ends_in_a_wait_too() -> None:
    """At its deadline."""
    canal, time = MemoryCanal(batches=2), Time()
    made = turns(canal, time, freshness="1h")
    one_batch(made, canal, time, 3.0)
    assert (made.left(10), time.now) == (0, 10)


def test_a_run_asap_stays() -> None:
    """It waits for rows in short turns, between which it looks at the queue."""
    made = turns(MemoryCanal(), Time(), freshness="asap", linger_seconds=60)
    assert (made.stays, made.patience(1_000), made.patience(1)) == (True, 3.0, 1)


@pytest.mark.parametrize(("took", "rest"), [(0.2, 0.2), (5.0, 1.0)])
def test_a_run_that_only_lands_rests_as_long_as_it_took(took: float, rest: float) -> None:
    """At most a second, and once."""
    canal, time = MemoryCanal(batches=2), Time()
    made = turns(canal, time, freshness="asap")
    made.left(300)
    claim = canal.get_without_ack(made.pace.rows, owner="run")
    assert claim is not None
    made.begin(claim)
    time.now += took
    made.end(claim, BatchResult((), landed=(Landed("shop.orders", 1, 10),)))
    assert made.left(300) == pytest.approx(300 - took - rest)
    assert made.left(300) == pytest.approx(300 - took - rest)


@pytest.mark.parametrize("freshness", ["", "30s", "asap"])
def test_another_job_comes_first(freshness: str) -> None:
    """After the batch that is at work."""
    canal, time, others = MemoryCanal(batches=3), Time(), [False]
    made = turns(canal, time, lambda: others[0], freshness=freshness)
    assert made.left(300) == 300
    one_batch(made, canal, time, 1.0)
    others[0] = True
    assert (made.left(300), made.gives_way) == (0, True)


def test_a_queue_that_does_not_move_holds_up_no_rows() -> None:
    """A run takes one turn before it gives way."""
    for freshness in ("", "30s", "asap"):
        canal, time = MemoryCanal(batches=3), Time()
        made = turns(canal, time, lambda: True, freshness=freshness)
        assert (made.left(300), made.gives_way) == (300, False)
        one_batch(made, canal, time, 1.0)
        assert (made.left(300), made.gives_way) == (0, True)


def test_a_queued_run_of_the_pool_is_seen() -> None:
    """One of another pool, or one that is at work, is not."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert not queued(instance, "cdc_shop")
        for pool, status in (("other", "QUEUED"), ("cdc_shop", "STARTED")):
            add(instance, pool, dg.DagsterRunStatus[status])
        assert not queued(instance, "cdc_shop")
        add(instance, "cdc_shop", dg.DagsterRunStatus.QUEUED)
        assert queued(instance, "cdc_shop")


def add(instance: dg.DagsterInstance, pool: str, status: dg.DagsterRunStatus) -> None:
    """A run as the queue has them: with where its job is loaded from."""
    origin = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "all").get_job_origin("drain_shop")
    tags = {f"{POOL_TAG_PREFIX}{pool}": "true"}
    instance.add_run(dg.DagsterRun("drain_shop", status=status, tags=tags, remote_job_origin=origin))
