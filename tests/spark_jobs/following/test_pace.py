"""When a run merges a table whose rows may wait in their log, with a clock of its own and without Spark."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_core.errors import LakeError
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Pending
from spark_jobs.following.together import LeftToStatement
from spark_jobs.landing.parked import Parking


@dataclass
class Logs:
    """Tables that get a row each second until `ends`; a merge takes no time and says that it took `took` seconds."""

    tables: tuple[str, ...]
    ends: float
    took: float = 1.0
    ahead: float = 0.0  # of the clock that says when a row came
    small: bool = False
    leaves: int = 0  # so many jobs leave what they were to merge
    turn: tuple[str, float] = ("", 0.0)  # the table that somebody writes, until then
    now: float = 1000.0
    merged: dict[str, float] = field(default_factory=dict)
    ages: list[float] = field(default_factory=list)
    jobs: list[float] = field(default_factory=list)

    def pending(self, table: str) -> Pending | None:
        since = self.merged.get(table, 1000.0) + 1
        return cast(Pending, SimpleNamespace(since=since + self.ahead)) if since <= min(self.now, self.ends) else None

    def next(self, table: str) -> Merged:
        self.ages.append(self.now - self.merged.get(table, 1000.0) - 1)
        self.merged[table] = self.now
        return Merged(table, parts=1, seconds=self.took)

    def takes(self, _: str, __: Pending) -> bool:
        return self.small

    def together(self, futures: Mapping[str, Future[Merged]], _: int) -> None:
        self.jobs.append(self.now)
        for table, future in futures.items():
            if len(self.jobs) <= self.leaves:
                future.set_exception(LeftToStatement())
            else:
                future.set_result(self.next(table))

    def rest(self, seconds: float) -> None:
        pass

    def taken(self, now: float) -> set[str]:
        return {self.turn[0]} if now < self.turn[1] else set()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def follow(logs: Logs, pace: FollowOptions) -> list[Any]:
    parking = cast(Parking, SimpleNamespace(tables=dict, free=lambda _: None, taken=logs.taken))
    clock = lambda: logs.now  # noqa: E731
    return list(Follow(logs, parking, lambda: logs.tables, pace, clock, clock, logs.sleep).run())


@pytest.mark.parametrize(("freshness", "took", "oldest"), [(60, 1, 49), (60, 8, 47), (60, 120, 0), (0, 1, 0)])
@pytest.mark.parametrize("small", [False, True])
def test_rows_wait_for_others_until_they_are_nearly_late(
    freshness: float, took: float, oldest: float, small: bool
) -> None:
    """The slower the merges, the earlier; rows that would be late anyway do not wait, and neither do the first ones of
    a run, which somebody may have started by hand."""
    logs = Logs(("a", "b"), ends=1200, took=took, now=1001, small=small)
    merged = follow(logs, FollowOptions(parallelism=2, linger_seconds=5, freshness_seconds=freshness))

    assert logs.ages[:2] == [0, 0]
    assert max(logs.ages) == pytest.approx(oldest, abs=2.5 if small else 1.5)  # both go when the first must
    assert logs.merged["a"] >= 1200
    assert len(merged) < 18 if oldest > 30 else len(merged) > 100


def test_a_clock_that_is_ahead_makes_no_row_wait_for_it() -> None:
    """Rows wait as long by the run's own."""
    logs = Logs(("a",), ends=1500, ahead=10_000, now=1001)
    follow(logs, FollowOptions(parallelism=1, linger_seconds=5, freshness_seconds=60))
    assert max(logs.ages) == pytest.approx(48, abs=2.5)


def test_a_run_that_ends_leaves_no_row_that_waits() -> None:
    """The next one has to start, which takes a while."""
    logs = Logs(("a",), ends=5000, now=1001)
    follow(logs, FollowOptions(parallelism=1, max_seconds=300, freshness_seconds=60))
    assert logs.now - logs.merged["a"] < 3


@pytest.mark.parametrize("small", [False, True])
def test_a_table_is_left_to_who_has_its_turn(small: bool) -> None:
    """The others go on, and so does it when the turn is over."""
    logs = Logs(("a", "b"), ends=1060, now=1001, small=small, turn=("a", 1030))
    follow(logs, FollowOptions(parallelism=2, linger_seconds=40))
    assert max(logs.ages) == pytest.approx(29, abs=1.5)
    assert logs.ages.count(0.0) > 40
    assert logs.merged == {"a": 1060, "b": 1060}


def test_what_a_job_left_goes_by_statements_for_a_minute() -> None:
    """Each of its rows is merged in time, and a job that failed once is not avoided for the rest of a run."""
    logs = Logs(("a", "b"), ends=1200, now=1001, small=True, leaves=2)
    follow(logs, FollowOptions(parallelism=2, linger_seconds=5))
    assert max(logs.ages) == 0
    assert logs.merged == {"a": 1200, "b": 1200}
    assert logs.jobs[:2] == [1001, 1061]
    assert len(logs.jobs) > 60


def test_the_results_of_merges_are_yielded_although_another_one_fails() -> None:
    """One of them may say that its table must stop. The run ends by the error."""
    ended = threading.Event()

    class Failing(Logs):
        def next(self, table: str) -> Merged:
            if table == "a":
                ended.set()
                raise LakeError("Spark is away", place="spark", hint="Start it.")
            ended.wait(10)
            return super().next(table)

    logs, merged = Failing(("a", "b", "c"), ends=1200, now=1001), list[str]()
    parking = cast(Parking, SimpleNamespace(tables=dict, free=lambda _: None, taken=logs.taken))
    run = Follow(logs, parking, lambda: logs.tables, FollowOptions(parallelism=3), sleep=logs.sleep).run()
    with pytest.raises(LakeError, match="Spark is away"):
        merged.extend(one.table for one in run)
    assert sorted(merged) == ["b", "c"]
