"""How long a regular expression may search a table's name: a program's filter must not hold up the whole service.

Python's matcher tries one way after the other, and nothing else runs meanwhile. The number of ways is estimated from
the expression; what may take longer than a moment is refused. Source: Python, "re", "Regular expression operations".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_NAME = 129  # characters of the longest `database.table`
_MOST_WAYS = 100_000_000


class TooMuch(Exception):
    """Why an expression may search for too long."""


@dataclass(frozen=True, slots=True)
class _Effort:
    """`spans`: parts of any length, one after the other. `ways`: choices between other parts."""

    spans: int = 0
    ways: int = 1

    @property
    def total(self) -> float:
        return self.ways * float(_NAME) ** self.spans / math.factorial(self.spans)


def check_effort(expressions: Iterable[str]) -> None:
    """Raises TooMuch for expressions that are tried one after the other."""
    total = 0.0
    for expression in expressions:
        total += _of(re._parser.parse(expression)).total  # type: ignore[attr-defined]
        if total > _MOST_WAYS:
            raise TooMuch(f"{expression[:100]!r} has too many parts of any length, or choices")


def _of(parts: Iterable[Any]) -> _Effort:
    spans, ways = 0, 1
    for name, value in parts:
        one = _of_part(str(name), value)
        spans, ways = spans + one.spans, ways * one.ways
    return _Effort(spans, ways)


def _of_part(name: str, value: Any) -> _Effort:
    match name:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _of_repeat(*value)
        case "BRANCH":
            found = [_of(one) for one in value[1]]
            return _Effort(max(one.spans for one in found), sum(one.ways for one in found))
        case "SUBPATTERN":
            return _of(value[-1])
        case "ATOMIC_GROUP":
            return _of(value)
        case "ASSERT" | "ASSERT_NOT":
            return _of(value[1])
        case "GROUPREF_EXISTS":
            return _of([*value[1], *(value[2] or ())])
        case _:
            return _Effort()


def _of_repeat(least: int, most: int, body: Any) -> _Effort:
    inner = _of(body)
    if int(most) == 1:
        return _Effort(inner.spans, inner.ways + 1 - least)
    if inner != _Effort():
        raise TooMuch("a part is repeated that has repeats or choices itself")
    return _Effort(int(least != most))
