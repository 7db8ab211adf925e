"""A leak is told from what only looks like one: noise, steps, values that level off, growth that has a reason."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from tests.support.growth import Measure, Outcome, Series, judge, theil_sen

SAMPLES = 720  # of an hour, one in five seconds
MEASURE = Measure("*", "MB", allowed=5.0)
SEEDS = range(12)


def series(value: Callable[[float], float], name: str = "a value", *, hours: float = 1.0) -> Series:
    at = [hours * one / SAMPLES for one in range(SAMPLES)]
    return Series(name, at, [value(one) for one in at])


def outcome(value: Callable[[float], float], measure: Measure = MEASURE, **others: Series) -> Outcome:
    return judge(measure, series(value), others, 0.5).outcome


def noisy(value: Callable[[float], float], size: float, seed: int) -> Callable[[float], float]:
    rng = Random(seed)
    return lambda at: value(at) + rng.gauss(0, size)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_steady_leak_fails(seed: int) -> None:
    """60 MB an hour within a noise of 10 MB, whose slope is found nearly exactly."""
    found = judge(MEASURE, series(noisy(lambda at: 300 + 60 * at, 10, seed)), {}, 0.5)
    assert (found.outcome, found.fails) == (Outcome.GROWS, True)
    assert found.slope == pytest.approx(60, abs=15)
    assert found.begin < found.end


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_passes(seed: int) -> None:
    """However large, also where it is not symmetric: a garbage collector's teeth, a process now and then."""
    rng = Random(seed)
    assert not outcome_fails(noisy(lambda _: 300, 80, seed))
    assert not outcome_fails(lambda at: 300 + 200 * ((at * 40) % 1))
    assert not outcome_fails(lambda _: 300 if rng.random() < 0.8 else 900)


def outcome_fails(value: Callable[[float], float], measure: Measure = MEASURE) -> bool:
    return judge(measure, series(value), {}, 0.5).fails


@pytest.mark.parametrize("at", [0.52, 0.6, 0.66, 0.7, 0.75, 0.8, 0.85, 0.97])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_step_passes(at: float, seed: int) -> None:
    """Wherever it is, with noise on it."""
    assert outcome(noisy(lambda hour: 300 + 90 * (hour > at), 4, seed)) in {Outcome.STEP, Outcome.ENDS, Outcome.LEVEL}
    assert not outcome_fails(lambda hour: 300 + 90 * (hour > at))


@pytest.mark.parametrize("minutes", [1, 3, 6])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_value_that_levels_off_passes(minutes: float, seed: int) -> None:
    """One that comes near its end, from the judged half's beginning on, with noise."""
    reached = noisy(lambda at: 900 - 400 * 2.718 ** -(max(0.0, at - 0.5) * 60 / minutes), 4, seed)
    assert outcome(reached) in {Outcome.ENDS, Outcome.STEP, Outcome.LEVEL}


@pytest.mark.parametrize("phase", [0, 2, 4, 6, 8])
def test_steps_that_go_on_fail(phase: float) -> None:
    """One more every ten minutes, whenever the first was: a leak that an allocator hands out in large pieces."""
    assert outcome(lambda at: 300 + 30 * ((at * 60 + phase) // 10)) is Outcome.GROWS


def test_a_slope_of_less_than_is_allowed_passes() -> None:
    """By what is allowed in an hour, whatever the height."""
    assert outcome(lambda at: 3 + 4 * at) is Outcome.LEVEL
    assert outcome(lambda at: 3 + 6 * at) is Outcome.GROWS
    assert outcome(lambda at: 3 - 60 * at) is Outcome.LEVEL


def test_growth_that_has_a_reason_passes() -> None:
    """Rows of a ledger by its batches; what is more than the reason gives fails, with its figure."""
    by_batches = Measure("*", "rows", 5.0, explained={"batches": 1.0})
    batches = series(lambda at: 700 * at * at, "batches")
    assert outcome(lambda at: 700 * at * at + 9, by_batches, batches=batches) is Outcome.LEVEL
    found = judge(by_batches, series(lambda at: 700 * at * at + 40 * at), {"batches": batches}, 0.5)
    assert found.outcome is Outcome.GROWS
    assert found.rest == pytest.approx(40, abs=1)
    assert found.slope == pytest.approx(1090, abs=30)


def test_a_reason_may_be_of_the_same_part() -> None:
    """The files of each log by the commits of that log."""
    by_commits = Measure("log of *", "", 5.0, explained={": commits": 2.0})
    files = series(lambda at: 800 * at, "log of a: files")
    commits = [series(lambda at: 400 * at, "log of a: commits"), series(lambda at: 9 * at, "log of b: commits")]
    others = {one.name: one for one in commits}
    assert judge(by_commits, files, others, 0.5).outcome is Outcome.LEVEL
    assert judge(by_commits, series(lambda at: 800 * at, "log of b: files"), others, 0.5).outcome is Outcome.GROWS


def test_a_reason_of_which_nothing_is_known_explains_nothing() -> None:
    """So that a value that could not be sampled hides no leak."""
    assert outcome(lambda at: 700 * at, Measure("*", "rows", 5.0, explained={"batches": 1.0})) is Outcome.GROWS


@pytest.mark.parametrize("phase", [0, 5, 10, 15, 20])
def test_a_value_that_rises_and_falls_by_design_fails_where_highs_and_lows_rise(phase: float) -> None:
    """A store that drops a volume every 25 minutes, wherever the soak begins; one that is not emptied is a leak."""
    store = Measure("*", "MB", 5.0, cycles=True)
    assert not outcome_fails(lambda at: 64 * (((at * 60 + phase) / 25) % 1), store)
    assert outcome(lambda at: 400 * at + 64 * (((at * 60 + phase) / 25) % 1), store) is Outcome.GROWS


def test_turns_that_a_soak_has_no_time_for_are_not_judged() -> None:
    """By the clock, or by another value. Where that could not be sampled they are judged, so that no leak is hidden,
    and what was hardly sampled is unknown."""
    for turn, wanted in (
        (("", 0.2), Outcome.GROWS),
        (("", 0.3), Outcome.SHORT),
        (("commits", 200.0), Outcome.GROWS),
        (("commits", 300.0), Outcome.SHORT),
        (("batches", 1.0), Outcome.GROWS),
    ):
        measure, commits = Measure("*", "MB", 5.0, cycles=True, turn=turn), series(lambda at: 1000 * at, "commits")
        assert outcome(lambda at: 400 * at, measure, commits=commits) is wanted
    late = series(lambda at: at, hours=1.0)
    late = Series(late.name, late.hours[355:], late.values[355:])
    assert judge(Measure("*", "MB", 5.0, cycles=True, turn=("", 9.0)), late, {}, 0.5).outcome is Outcome.UNKNOWN


def test_turns_of_different_heights_are_no_growth() -> None:
    """The second half's are a fifth higher; twice as high they are a leak."""
    files = Measure("*", "", 5.0, cycles=True)
    assert not outcome_fails(lambda at: 100 + (1000 if at < 0.5 else 1150) * ((at * 10) % 1), files)
    assert outcome(lambda at: 100 + 200 * at + 200 * ((at * 10) % 1), files) is Outcome.GROWS


def test_a_value_fills_what_the_configuration_gives_it() -> None:
    """A heap of 1 GB; what goes on above it is a leak."""
    heap = Measure("*", "MB", 5.0, bound=1000.0)
    assert outcome(lambda at: 900 * at, heap) is Outcome.FILLS
    assert outcome(lambda at: 1100 * at, heap) is Outcome.GROWS


def test_a_value_that_was_hardly_sampled_is_not_passed() -> None:
    """Nor one whose process began just now; what is only shown needs no samples."""
    few = Series("a value", [0.1, 0.9, 0.95], [1.0, 1.0, 1.0])
    assert judge(MEASURE, few, {}, 0.5).outcome is Outcome.UNKNOWN
    assert judge(MEASURE, Series("a value", [], []), {}, 0.5).fails
    assert judge(Measure("*", "MB", 5.0, judged=False), few, {}, 0.5).outcome is Outcome.SHOWN
    assert judge(Measure("*", "MB", 5.0, comes=True), few, {}, 0.5).outcome is Outcome.SHOWN


def test_what_is_not_judged_is_shown_with_its_slope() -> None:
    """The reader sees what would grow in a real week."""
    found = judge(Measure("*", "MB", 5.0, judged=False), series(lambda at: 100 * at), {}, 0.5)
    assert (found.outcome, found.fails) == (Outcome.SHOWN, False)
    assert found.slope == pytest.approx(100, abs=1)


def test_a_slope_is_the_median_of_all_pairs() -> None:
    """Some wild samples do not move it."""
    at = np.arange(20.0)
    values = 3 * at
    values[[4, 11, 17]] = 1e6, -1e6, 1e6
    slopes = [(b - a) / 1.0 for a, b in pairwise(3 * at)]
    assert theil_sen(at, values) == pytest.approx(slopes[0], abs=0.3)
