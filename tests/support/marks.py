"""Which cases of a test run by default, which only under `make test ALL=1`, and which in turn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Set
from datetime import date
from typing import Any
from zlib import crc32

import pytest

EVERYWHERE = "SLUICE_TEST_EVERYWHERE" in os.environ
"""Also the cases whose turn it is not."""

_TURN = int(os.environ.setdefault("SLUICE_TEST_TURN", str(date.today().toordinal())))
"""One of all processes of a run, over midnight."""


def has_turn(test: str, days: int = 7) -> bool:
    """Whether it is the turn of a test with the mark `in_turn(days)`: one day of so many."""
    return EVERYWHERE or (_TURN + crc32(test.encode())) % days == 0


def in_turn(cases: Iterable[Any]) -> list[Any]:
    """A third of the cases, another third each day. For slow cases whose parts other cases cover."""
    found = list(cases)
    text = json.dumps(found, default=_plain)  # which is the same in all processes of a run
    return found if EVERYWHERE else found[(_TURN + crc32(text.encode())) % 3 :: 3]


def tiers(by_default: Iterable[Any] = (), *, full: Iterable[Any] = (), turns: Iterable[Any] = ()) -> list[Any]:
    """The cases for `parametrize`: these, those of the full run, and of the rest the ones whose turn it is."""
    return [*by_default, *map(_full, full), *map(_full, in_turn(turns))]


def mostly_full(cases: Iterable[Any], by_default: Callable[[Any], bool], days: int = 1) -> list[Any]:
    """The cases for `parametrize`: those that `by_default` refuses have the mark `full`, and run one day of `days`."""
    return [case if by_default(case) else _full(case, days) for case in cases]


def _plain(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, Set) else getattr(value, "__qualname__", None) or repr(value)


def _full(case: Any, days: int = 1) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=[pytest.mark.full, pytest.mark.in_turn(days)] if days > 1 else pytest.mark.full)
