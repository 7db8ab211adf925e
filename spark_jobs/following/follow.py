"""Merges the logs of one run, several at the same time, each at its own pace.

One job merges the small tables that are due, and the next ones when it has ended; meanwhile statements merge the large
ones. A table whose merge fails waits, longer after each failure, while the others go on; nothing of its log is lost. A
run stays for a while when there is nothing to merge, because starting one costs more than waiting. If rows may wait in
their log, a table is merged when the oldest is nearly late: a merge of many rows costs little more than one of few.
Trouble of all tables (Spark or the lake is unavailable) ends the run; a single log that cannot be read makes its table
wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.following.merged import Merged
from spark_jobs.following.others import TakenOver
from spark_jobs.following.pending import Pending
from spark_jobs.following.together import LeftToStatement
from spark_jobs.landing.parked import Parked, Parking

_STEP_BACK, _LONGEST = 5.0, 120.0  # seconds for which a run leaves a table to another one; longer each time
_NEVER = (0.0, 0.0)
_LOOK, _LIST = 1.0, 10.0  # seconds between two looks at the logs, and between two listings of them
_A_MERGE = 3.0  # seconds of a table's merge, until they are known
_SLOWER = 1.25  # a merge may take so many times as long as the last one
_FIRST = 2.0  # a table's first merge takes so many times as long as later ones: Spark compiles it
_VIEWS = 30.0  # seconds at the end, in which waiting views are rebuilt
_ALONE = 60.0  # seconds for which a table that the job left is merged by statements
_SPARE, _RESTART = 10.0, 15.0  # seconds that are left before a row is late, and that the start of the next run takes


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The options of a run. `parallelism`: the tables that are merged at the same time, and the tasks of a job. No part
    begins after `max_seconds`; the run ends when there was nothing to merge for `linger_seconds`. `parked`: waiting
    tables are tried at once. `freshness_seconds`: how old rows of a log may be until their table has them, 0 for as
    fresh as possible; the first part of each table is merged at once."""

    parallelism: int = 4
    max_seconds: float = 300.0
    linger_seconds: float = 10.0
    parked: bool = False
    freshness_seconds: float = 0.0

    def presses(self, waiting: Iterable[tuple[float, float]]) -> bool:
        """Whether the first of these tables must begin, so that no later one becomes late. `waiting` has the age of
        each table's oldest row, and the seconds that its merge takes, in the order in which they are merged."""
        needed = 0.0
        for age, seconds in waiting:
            needed += _SLOWER * seconds / self.parallelism
            if age >= self.freshness_seconds - _SPARE - needed:
                return True
        return False


class Follower(Protocol):
    """Merges logs for a run: see `Works`."""

    def pending(self, table: str, /) -> Pending | None: ...

    def next(self, table: str, /) -> Merged: ...

    def takes(self, table: str, pending: Pending, /) -> bool: ...

    def together(self, futures: Mapping[str, Future[Merged]], tasks: int, /) -> None: ...

    def rest(self, seconds: float, /) -> None: ...


@dataclass
class Follow:
    """One run over the logs of `tables`, which is called now and then: tables come and go. `gives_way`: whether another
    run waits for the end of this one."""

    merger: Follower
    parking: Parking
    tables: Callable[[], Sequence[str]]
    pace: FollowOptions = FollowOptions()
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    gives_way: Callable[[], bool] = lambda: False
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)
    _away: list[Parked] = field(default_factory=list)
    _listed: tuple[float, Sequence[str]] | None = None
    _took: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    _waits: bool = False
    _small: set[str] = field(default_factory=set)
    _alone: dict[str, float] = field(default_factory=dict)  # tables that the job left to statements: until when

    def run(self) -> Iterator[Merged | Parked]:
        """Yields the result of each part. Raises LakeError, when the merges that had begun are done and their results
        are yielded: one of them may contradict its log."""
        under_way: dict[Future[Merged], str] = {}
        try:
            yield from self._merges(under_way)
        except Exception:
            outcomes = [self._last_outcome(table, future) for future, table in under_way.items() if future.done()]
            yield from filter(None, outcomes)
            raise

    def _merges(self, under_way: dict[Future[Merged], str]) -> Iterator[Merged | Parked]:
        """Begins merges and yields their results. `under_way`: those whose result is not yielded yet."""
        deadline, busy = self.clock() + self.pace.max_seconds, self.clock()
        job, look = None, 0.0
        asks = False  # each run takes its first turn: a queue that does not move holds up nothing
        with ThreadPoolExecutor(self.pace.parallelism + 1, thread_name_prefix="follow") as pool:
            while True:
                ends = self.clock() >= deadline or (asks and self.gives_way())
                asks = True
                free = job is None or job.done()
                if not ends and (free or not under_way or self.clock() >= look):
                    began, last = self.clock(), self.clock() + _RESTART >= deadline
                    due = self._due(set(under_way.values()), last=last)
                    look = self.clock() + max(_LOOK, 2 * (self.clock() - began))
                    small = [table for table in due if table in self._small]
                    if small and free:
                        futures = {table: Future[Merged]() for table in small}
                        under_way |= {future: table for table, future in futures.items()}
                        job = pool.submit(self.merger.together, futures, self.pace.parallelism)
                    alone = sum(table not in self._small for table in under_way.values())
                    for table in [one for one in due if one not in self._small][: self.pace.parallelism - alone]:
                        under_way[pool.submit(self.merger.next, table)] = table
                    while self._away:
                        yield self._away.pop()
                if self._waits:
                    busy = self.clock()
                if not under_way:
                    self.merger.rest(_VIEWS if ends else _LOOK)
                    if ends or self.clock() - busy >= self.pace.linger_seconds:
                        return
                    self.sleep(_LOOK)
                    continue
                done, _ = wait(under_way, timeout=_LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    outcome = self._outcome(under_way.pop(future), future)
                    if outcome:
                        busy = self.clock()
                        yield outcome

    def _due(self, busy: set[str], *, last: bool) -> list[str]:
        """Returns the tables that have something to merge, the furthest behind first. `last`: the run is about to end,
        so no table waits for more rows."""
        self._waits = False
        parked, found = self.parking.tables(), []
        busy |= self.parking.taken(self.now())
        for table in self._known():
            waits = table in parked and not parked[table].is_due(self.now())
            if table in busy or self._left.get(table, _NEVER)[0] > self.clock():
                continue
            if waits and not (self.pace.parked and table not in self._tried):
                continue
            try:
                pending = self.merger.pending(table)
            except TableStopped:  # the merge raises it again, and reports it
                self._small.discard(table)
                found.append((0.0, table))
                continue
            except LakeError as error:  # of this log: the lake was listed, and takes the note
                self._tried.add(table)
                self._away.append(self.parking.park(table, error, self.now()))
                continue
            if pending is not None:
                found.append((pending.since, table))
                self._small.discard(table)
                if self._alone.get(table, 0.0) <= self.clock() and self.merger.takes(table, pending):
                    self._small.add(table)
            elif table in parked:
                self.parking.free(table)  # it was reloaded, or merged otherwise
        found.sort()
        if last or not self.pace.freshness_seconds:
            return [table for _, table in found]
        first = [table for _, table in found if table not in self._tried]
        again = [one for one in found if one[1] in self._tried]
        ages = [(self._age(table, since), self._took.get(table, _A_MERGE)) for since, table in again]
        pressed = [table for _, table in again] if self.pace.presses(ages) else []
        if pressed:  # one at a time; if it is small, the other small ones are merged by the same job
            with_it = self._small if pressed[0] in self._small else ()
            pressed = [table for at, table in enumerate(pressed) if not at or table in with_it]
        due = first + pressed
        self._waits = len(due) < len(found)
        return due

    def _age(self, table: str, since: float) -> float:
        """Returns how long the oldest row of a log has waited: by the clock that dated it, which may be ahead, or by
        this run's, whichever is longer."""
        known = self._seen.get(table)
        if known is None or known[0] != since:
            known = self._seen[table] = (since, self.clock())
        return max(self.now() - since, self.clock() - known[1])

    def _known(self) -> Sequence[str]:
        """Returns the tables, listed again now and then."""
        if self._listed is None or self.clock() - self._listed[0] >= _LIST:
            self._listed = (self.clock(), self.tables())
        return self._listed[1]

    def _last_outcome(self, table: str, future: Future[Merged]) -> Merged | Parked | None:
        """Returns the outcome of a merge that ended while another one failed, or None if it failed likewise."""
        try:
            return self._outcome(table, future)
        except Exception:  # the run ends by the first error
            return None

    def _outcome(self, table: str, future: Future[Merged]) -> Merged | Parked | None:
        self._tried.add(table)
        try:
            merged = future.result()
        except LeftToStatement:
            self._alone[table] = self.clock() + _ALONE
            self._tried.discard(table)  # a statement still tries it, even if it is parked
            return None
        except TakenOver:
            pause = min(_LONGEST, 2 * self._left[table][1]) if table in self._left else _STEP_BACK
            self._left[table] = (self.clock() + pause, pause)
            self._alone.pop(table, None)
            return None
        except TableStopped as error:
            return self.parking.park(table, error, self.now())
        self._left.pop(table, None)
        if merged.seconds:
            self._took[table] = merged.seconds if table in self._took else merged.seconds / _FIRST
        self.parking.free(table)
        return merged
