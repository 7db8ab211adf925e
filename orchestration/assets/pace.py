"""Decides the size and the time of the next claim, from the cost and the rows of the claims so far.

Pure. It promises no freshness: rows that cost more time than that are late, and nothing is made to wait then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

_MEMORY = 0.8  # what each claim leaves of the weight of those before it
_SPREAD = 0.05  # claims that differ by less than this share of their rows do not show what a row costs
_PAYS = 0.97  # a claim of twice the rows pays when a row costs less than this of what it cost
_SMALLEST = 100_000  # rows of a claim that is cut from a backlog
_MARGIN = 0.9  # of the freshness is used


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds as a line over rows, by least squares, in which older claims weigh less and less. The fields are the
    weighted sums."""

    weight: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def add(self, rows: int, seconds: float) -> Cost:
        return Cost(
            self.weight * _MEMORY + 1,
            self.rows * _MEMORY + rows,
            self.seconds * _MEMORY + seconds,
            self.squares * _MEMORY + rows * rows,
            self.products * _MEMORY + rows * seconds,
        )

    @property
    def per_row(self) -> float:
        """Between nothing and what a row cost on average. Claims of one size leave it at nothing."""
        if not self.rows:
            return 0.0
        mean, cost = self.rows / self.weight, self.seconds / self.weight
        spread = max(0.0, self.squares / self.weight - mean * mean)
        slope = (self.products / self.weight - mean * cost) / (spread + (_SPREAD * mean) ** 2)
        return min(max(slope, 0.0), cost / mean)

    @property
    def fixed(self) -> float:
        return max(0.0, (self.seconds - self.per_row * self.rows) / self.weight) if self.weight else 0.0

    def of(self, rows: float) -> float:
        return self.fixed + self.per_row * rows


@dataclass(frozen=True, slots=True)
class Merged:
    """The rows of a claim that one table took, and the seconds for them."""

    table: str
    rows: int
    seconds: float


@dataclass(frozen=True)
class Pace:
    """`freshness`: seconds that a row may wait until it is in the lake; 0 for as few as possible. `most`: rows that no
    claim exceeds by intent. `parallelism`: tables that are merged at the same time.

    `tables` are the costs of their merges, `shares` their parts of a claim's rows, `rest` what else a claim
    costs, `rate` the rows that come in a second."""

    freshness: float
    most: int
    parallelism: int
    tables: Mapping[str, Cost] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    rest: Cost = Cost()
    rate: float = 0.0

    def after(self, seconds: float, merged: list[Merged]) -> Pace:
        """With one more claim, which took so long from its rows' arrival to its ack."""
        total = sum(one.rows for one in merged)
        if not total:
            return self
        merges = makespan([one.seconds for one in merged], self.parallelism)
        new = {one.table: one.rows / total for one in merged}
        return replace(
            self,
            tables={
                **self.tables,
                **{m.table: self.tables.get(m.table, Cost()).add(m.rows, m.seconds) for m in merged},
            },
            shares={table: _mixed(self.shares.get(table), new.get(table, 0.0)) for table in {**self.shares, **new}},
            rest=self.rest.add(total, max(0.0, seconds - merges)),
        )

    def arrived(self, rows: int, seconds: float) -> Pace:
        """With so many rows that came in so many seconds."""
        if seconds <= 0:
            return self
        return replace(self, rate=_mixed(self.rate or None, max(0, rows) / seconds))

    def seconds(self, rows: float) -> float:
        """Returns the seconds that a claim of so many rows would take."""
        shares = {table: share * rows for table, share in self.shares.items()}
        present = [self.tables[table].of(part) for table, part in shares.items() if part >= 1]
        least = [max((self.tables[table].of(part) for table, part in shares.items()), default=0.0)]
        return self.rest.of(rows) + makespan(present or least, self.parallelism)

    @cached_property
    def rows(self) -> int:
        """The largest claim that pays: of twice the rows, each would cost about as much. Without a freshness, as many
        as can be."""
        if not self.shares or not self.freshness:
            return self.most
        rows = best = _SMALLEST
        while rows < self.most:  # tables of few rows come in at a jump, after which more may pay again
            if self.seconds(2 * rows) < 2 * self.seconds(rows) * _PAYS:
                best = 2 * rows
            rows *= 2
        return min(best, self.most)

    def pause(self, waiting: int, since: float) -> float:
        """The seconds for which the next claim may wait for more rows, when `waiting` are there, none of them for
        longer than `since` seconds. It is 0 for as many as pay."""
        if waiting >= self.rows:
            return 0.0
        left = self.freshness * _MARGIN - since
        return max(0.0, left - self.seconds(min(self.most, waiting + self.rate * max(0.0, left))))


def makespan(seconds: list[float], parallelism: int) -> float:
    """Returns about how many seconds jobs of such lengths take, so many of them at the same time."""
    return max(max(seconds, default=0.0), sum(seconds) / max(1, parallelism))


def _mixed(before: float | None, now: float) -> float:
    return now if before is None else before * _MEMORY + now * (1 - _MEMORY)
