"""Which cases of a test run by default, which only under `make test ALL=1`, and which by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

EVERYWHERE = "SLUICE_TEST_EVERYWHERE" in os.environ
"""Also the cases that differ from others in their numbers alone, or of which others have each part."""


def tiers(by_default: Iterable[Any] = (), *, full: Iterable[Any] = (), by_hand: Iterable[Any] = ()) -> list[Any]:
    """The cases for `parametrize`: these, those of the full run, and those that run EVERYWHERE alone."""
    return [*by_default, *map(_full, full), *(map(_full, by_hand) if EVERYWHERE else ())]


def mostly_full(cases: Iterable[Any], by_default: Callable[[Any], bool]) -> list[Any]:
    """The cases for `parametrize`: those that `by_default` refuses have the mark `full`."""
    return [case if by_default(case) else _full(case) for case in cases]


def _full(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.full)
