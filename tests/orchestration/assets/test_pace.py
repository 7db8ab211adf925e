"""The pace of a run: how large claims are, and how long they wait, for whatever they cost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from orchestration.assets.pace import Cost, Merged, Pace, makespan

MOST = 2_000_000
seconds = st.floats(0.01, 60)
row_seconds = st.floats(1e-7, 1e-2)
claims = st.lists(st.tuples(st.integers(1, MOST), seconds), min_size=1, max_size=30)


def measured(fixed: float, per_row: float, sizes: list[int], freshness: float = 30, most: int = MOST) -> Pace:
    """A pace that has seen claims of one table with this cost."""
    pace = Pace(freshness, most, 4)
    for rows in sizes:
        cost = fixed + per_row * rows
        pace = pace.after(cost, [Merged("shop.orders", rows, cost)])
    return pace


def test_nothing_measured_is_the_largest_claim_at_once() -> None:
    """As if there were no pace."""
    assert Pace(0, MOST, 4).rows == MOST
    assert Pace(0, MOST, 4).pause(0, 0) == 0


@given(claims)
def test_a_cost_is_never_negative_and_goes_through_the_middle(seen: list[tuple[int, float]]) -> None:
    """Whatever was measured, also claims that got cheaper with their rows."""
    cost = Cost()
    for rows, took in seen:
        cost = cost.add(rows, took)
    assert cost.fixed >= 0
    assert cost.per_row >= 0
    middle = cost.seconds / cost.weight
    assert abs(cost.of(cost.rows / cost.weight) - middle) <= 1e-6 * max(1.0, middle)


@given(st.floats(0.1, 20), st.floats(1e-6, 1e-3))
def test_a_cost_is_found_from_claims_that_differ(fixed: float, per_row: float) -> None:
    """A line is measured as that line."""
    cost = Cost()
    for rows in (10, 1_000_000, 100_000, 2_000_000, 50) * 4:
        cost = cost.add(rows, fixed + per_row * rows)
    assert abs(cost.per_row - per_row) < 0.1 * per_row
    assert abs(cost.of(500_000) - (fixed + per_row * 500_000)) < 0.1 * (fixed + per_row * 500_000)


@given(claims, st.integers(1, MOST), st.floats(0, 3600), st.floats(0, 3600), st.integers(0, MOST), st.floats(0, 1e6))
def test_the_bounds_hold_for_whatever_was_measured(
    seen: list[tuple[int, float]], most: int, freshness: float, since: float, waiting: int, rate: float
) -> None:
    """A claim has between 1 and `most` rows; none waits beyond the freshness, or when as many are there as pay."""
    pace = replace(Pace(freshness, most, 4), rate=rate)
    for rows, took in seen:
        pace = pace.after(took, [Merged("a", rows, took), Merged("b", rows // 2, took / 2)])
    assert 1 <= pace.rows <= most
    assert 0 <= pace.pause(waiting, since) <= max(0.0, freshness - since)
    assert pace.pause(pace.rows, since) == 0
    assert replace(pace, freshness=0.0).pause(waiting, since) == 0


@given(st.floats(0.5, 20), st.floats(1e-6, 1e-4), st.integers(0, 900), st.floats(0, 25))
def test_a_row_is_in_the_lake_in_time(fixed: float, per_row: float, waiting: int, since: float) -> None:
    """Where its claim can be done in time at all: the wait leaves room for what the claim costs."""
    pace = measured(fixed, per_row, [10, 100, 1_000, 100_000], freshness=30)
    pause = pace.pause(waiting, since)
    if pause:
        assert since + pause + fixed + per_row * waiting <= 30


def test_a_trickle_is_gathered_and_a_backlog_is_not() -> None:
    """A merge of 2 s: rows wait 25 s for others, and a backlog for nothing."""
    pace = measured(2.0, 1e-5, [10, 100_000, 1_000_000], freshness=30)
    assert 20 < pace.pause(10, 0) < 28
    assert pace.pause(pace.rows, 0) == 0


def test_cheap_merges_make_small_claims_and_dear_ones_large() -> None:
    """As large as pays: of a claim with twice the rows, each row would cost about as much."""
    cheap, dear = (measured(fixed, 1e-4, [100, 10_000, 200_000]).rows for fixed in (0.1, 10.0))
    assert cheap == 100_000 < dear <= MOST
    assert measured(10.0, 1e-7, [100, 10_000, 200_000]).rows == MOST
    assert measured(10.0, 1e-7, [100, 10_000, 200_000], most=5).rows == 5


def test_costs_follow_the_tables_as_they_change() -> None:
    """What a merge cost an hour ago counts for nothing compared with what it costs now."""
    pace = measured(1.0, 1e-5, [100, 100_000] * 10)
    for _ in range(30):
        pace = pace.after(20.0, [Merged("shop.orders", 100, 20.0)])
    assert 15 < pace.seconds(100) < 25


def test_only_tables_that_have_rows_count() -> None:
    """A claim of ten rows that are all one table's costs that table's merge."""
    pace = Pace(30, MOST, 1)
    pace = pace.after(60, [Merged("big", 1_000_000, 50.0), Merged("small", 1, 10.0)])
    for _ in range(40):
        pace = pace.after(1.0, [Merged("tiny", 10, 1.0)])
    assert pace.seconds(10) < 3


def test_tables_side_by_side_take_as_long_as_the_longest_or_their_sum() -> None:
    """Divided by how many there may be."""
    assert makespan([3.0, 1.0, 1.0], 4) == 3.0
    assert makespan([1.0] * 8, 4) == 2.0
    assert makespan([], 4) == 0.0


def test_rows_that_come_fast_are_claimed_sooner() -> None:
    """The claim will have those too that come while it waits."""
    slow = measured(1.0, 1e-4, [100, 10_000, 100_000])
    fast = slow.arrived(3_000, 1.0)
    assert fast.rate == 3_000
    assert fast.pause(10, 0) < slow.pause(10, 0)
    assert slow.arrived(5, 0.0) is slow
