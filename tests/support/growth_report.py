"""A table of slopes for people, of 80 columns: what grew by how much an hour, what is left of it, what fails."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from tests.support.growth import Finding, Outcome

WIDTH = 80
_NAME = 30
_HEAD = f"{'value':<{_NAME}} {'unit':<5} {'begin':>8} {'end':>8} {'an hour':>8} {'rest':>8} {'':<7}"


def table(findings: Iterable[Finding]) -> list[str]:
    """A line a value. `rest`: of the growth an hour, what its reasons do not explain."""
    return [_HEAD.rstrip(), "-" * WIDTH, *(_line(one).rstrip() for one in findings)]


def failures(findings: Iterable[Finding]) -> list[str]:
    """What fails, by its whole name and its figures."""
    return [_failure(one) for one in findings if one.fails]


def reasons(findings: Sequence[Finding]) -> list[str]:
    """Why values may grow, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for one in findings:
        if one.measure.why and one.outcome in (
            Outcome.SHOWN,
            Outcome.LEVEL,
            Outcome.CYCLES,
            Outcome.FILLS,
            Outcome.SHORT,
        ):
            by_reason.setdefault(one.measure.why, []).append(one.measure.pattern)
    return [line for why, names in by_reason.items() for line in wrapped(f"{why}: {', '.join(dict.fromkeys(names))}")]


def wrapped(text: str, indent: str = "  ") -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=2 * indent)


def _line(one: Finding) -> str:
    figures = f"{_short(one.begin):>8} {_short(one.end):>8} {_short(one.slope, '+'):>8} {_short(one.rest, '+'):>8}"
    return f"{_cut(one.name):<{_NAME}} {one.measure.unit:<5} {figures} {one.outcome:<7}"


def _failure(one: Finding) -> str:
    if one.outcome is Outcome.UNKNOWN:
        return f"{one.name} is UNKNOWN: it was hardly sampled in the judged half"
    unit = f" {one.measure.unit}".rstrip()
    without = f", {_short(one.rest, '+')} of it without a reason" if one.measure.explained else ""
    figures = f"{_short(one.slope, '+')}{unit} an hour{without}; {_short(one.measure.allowed)}{unit} is allowed"
    return f"{one.name} GROWS by {figures} ({_short(one.begin)} to {_short(one.end)}{unit})"


def _short(value: float, sign: str = "") -> str:
    """At most eight characters."""
    if abs(value) >= 1e6:
        return f"{value:{sign}.1e}"
    return f"{value:{sign}.1f}" if abs(value) < 1000 else f"{value:{sign},.0f}"


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 16]}…{name[-15:]}"
