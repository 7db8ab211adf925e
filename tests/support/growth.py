"""Whether a sampled value grows without end: what is left of its growth after what explains it, and how that goes on.

Pure. The second half of a soak is judged, in the last life of what is sampled. Its slope is that of Theil and Sen, the
median of the slopes of all pairs, which a third of wild samples does not move. A slope fails only if it

- is more than the measure allows, and than noise of that size makes;
- goes on: the last third rises about as much as the one before, so that a value that levels off passes;
- is no single step: two levels do not fit the values clearly better than a line.

A value that rises and falls by design fails if both its lows and its highs are higher than in the first half, by more
than is allowed and than a quarter of what it rises and falls. If two turns do not lie in the judged half, it does
not fail. A value that the configuration bounds fails above that bound alone.

It does not prove that nothing grows: a growth below the noise of an hour is not seen. Of simulated values with noise
of 5 that lasts half a minute, a growth of 60 an hour where 30 are allowed was found in 95 of 100; with noise of 10 in
65. Of values with noise alone that lasts for minutes, as large as what is allowed, 2 or 3 of 100 failed: look at such a
one again with another seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

_BINS, _LEAST = 60, 12  # medians of the judged half, and how many of them there must be
_GOES_ON = 0.5  # of the mean rise from third to third: a smaller one is an end
_TIMES_NOISE = 3.0
_TURNS, _OF_A_TURN = 2, 0.25  # in the judged half; what the lows and highs of turns may differ by
_CLEARLY = 0.93  # of the line's error: two levels fit noise better than a line, as their place is free
_Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]


class Outcome(StrEnum):
    """What becomes of a value. The last two fail."""

    LEVEL = "level"
    NOISE = "noise"  # its slope may be one of noise
    STEP = "step"
    ENDS = "ends"  # it levels off
    CYCLES = "cycles"  # up and down
    FILLS = "fills"  # below a bound that it may reach
    SHORT = "short"  # not judged: the soak is too short for its turns
    SHOWN = "shown"  # not judged
    GROWS = "GROWS"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Measure:
    """How values whose names fit `pattern` are judged. `allowed`: growth an hour that needs no reason. `explained`: by
    the name of another value, how much of this one each unit of it explains, at most; a name without a part (`: rows`)
    is of the same part. `cycles`: it rises and falls by design. `turn`: how much of another value, or with "" how many
    hours, one rise and fall takes. `bound`: what the configuration lets it take. `comes`: it may be there for a part of
    the soak only, and is not judged then. `why`: what explains it, or why it is not `judged`."""

    pattern: str
    unit: str
    allowed: float
    explained: Mapping[str, float] = field(default_factory=dict)
    cycles: bool = False
    turn: tuple[str, float] = ("", 0.0)
    bound: float = 0.0
    judged: bool = True
    comes: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Values at times, in hours since the beginning of the soak."""

    name: str
    hours: Sequence[float]
    values: Sequence[float]

    def at(self, hours: _Numbers) -> _Numbers:
        """Returns the values at other times, between two samples on the line between them."""
        found: _Numbers = np.interp(hours, np.asarray(self.hours, float), np.asarray(self.values, float))
        return found


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found of one value in the judged half. `slope`, `explained` and `rest` are an hour."""

    name: str
    measure: Measure
    outcome: Outcome
    begin: float = 0.0
    end: float = 0.0
    slope: float = 0.0
    rest: float = 0.0

    @property
    def fails(self) -> bool:
        return self.outcome in (Outcome.GROWS, Outcome.UNKNOWN)


def judge(measure: Measure, series: Series, others: Mapping[str, Series], since: float) -> Finding:
    """Returns what is found of a value from the time `since` on. `others` has the values that explain it."""
    hours, values = np.asarray(series.hours, float), np.asarray(series.values, float)
    part = series.name.partition(":")[0]
    reasons = {f"{part}{name}" if name.startswith(":") else name: rate for name, rate in measure.explained.items()}
    known = (rate * others[name].at(hours) for name, rate in reasons.items() if name in others)
    rest = values - sum(known, np.zeros(len(hours)))
    at, found = _binned(hours, values, since)
    _, left = _binned(hours, rest, since)
    if len(at) < _LEAST:
        may = measure.comes or not measure.judged
        return Finding(series.name, measure, Outcome.SHOWN if may else Outcome.UNKNOWN)
    outcome = Outcome.SHOWN
    if measure.judged:
        before = rest[(hours >= since / 3) & (hours < since)]  # not while all of it starts
        outcome = _of_cycles(measure, before, left, since) if measure.cycles else _outcome(measure, at, left)
        if outcome is Outcome.GROWS and float(np.max(found)) <= measure.bound:
            outcome = Outcome.FILLS
        if outcome is Outcome.GROWS and measure.cycles and _turns(measure, at, others) < _TURNS:
            outcome = Outcome.SHORT
    begin, _, end = _thirds(found)
    return Finding(series.name, measure, outcome, begin, end, theil_sen(at, found), theil_sen(at, left))


def theil_sen(at: _Numbers, values: _Numbers) -> float:
    """Returns the median of the slopes of all pairs."""
    first, second = np.triu_indices(len(at), 1)
    return float(np.median((values[second] - values[first]) / (at[second] - at[first])))


def _of_cycles(measure: Measure, before: _Numbers, values: _Numbers, hours: float) -> Outcome:
    """`hours` lie between the values of before and these."""
    if len(before) < _LEAST:
        return Outcome.UNKNOWN
    (low, high), lows_and_highs = np.percentile(before, (5, 95)), np.percentile(values, (5, 95))
    rise = float(min(lows_and_highs - (low, high)))
    return Outcome.GROWS if rise > max(measure.allowed * hours, _OF_A_TURN * (high - low)) else Outcome.CYCLES


def _turns(measure: Measure, at: _Numbers, others: Mapping[str, Series]) -> float:
    """Returns how many turns of the value lie between these times: enough of them if that is not known, so that the
    value is judged."""
    name, each = measure.turn
    if not each or (name and name not in others):
        return _TURNS
    if not name:
        return float(at[-1] - at[0]) / each
    begin, end = others[name].at(at[[0, -1]])
    return float(end - begin) / each


def _outcome(measure: Measure, at: _Numbers, values: _Numbers) -> Outcome:
    slope, length = theil_sen(at, values), float(at[-1] - at[0])
    low, middle, high = _thirds(values)
    if max(slope * length, high - low) <= measure.allowed * length:
        return Outcome.LEVEL
    line = values - slope * at
    line -= np.median(line)
    if slope * length <= _TIMES_NOISE * 1.4826 * float(np.median(np.abs(line))) * (12 / len(at)) ** 0.5:
        return Outcome.NOISE
    if _error_of_step(values) <= _CLEARLY * float(np.sum(np.abs(line))):
        return Outcome.STEP
    least = _GOES_ON * (high - low) / 2
    if high - middle < least:
        return Outcome.ENDS
    return Outcome.STEP if middle - low < least else Outcome.GROWS


def _error_of_step(values: _Numbers) -> float:
    """Returns how far the values are from two levels, one after the other, that fit best."""
    halves = ((values[:cut], values[cut:]) for cut in range(1, len(values)))
    return min(sum(float(np.sum(np.abs(half - np.median(half)))) for half in both) for both in halves)


def _thirds(values: _Numbers) -> tuple[float, float, float]:
    first, second, third = (float(np.median(part)) for part in np.array_split(values, 3))
    return first, second, third


def _binned(hours: _Numbers, values: _Numbers, since: float) -> tuple[_Numbers, _Numbers]:
    """Returns medians of equal parts of the time from `since` on, so that each moment counts as much."""
    chosen = hours >= since
    hours, values = hours[chosen], values[chosen]
    if not len(hours):
        return hours, values
    width = max((hours[-1] - since) / _BINS, 1e-9)
    parts = np.minimum(((hours - since) / width).astype(int), _BINS - 1)
    used = np.unique(parts)
    return (
        np.array([np.median(hours[parts == part]) for part in used]),
        np.array([np.median(values[parts == part]) for part in used]),
    )
