"""Which cases of a test run by default, and which only under `make test ALL=1`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def mostly_full(cases: Iterable[Any], by_default: Callable[[Any], bool]) -> list[Any]:
    """The cases for `parametrize`: those that `by_default` refuses have the mark `full`."""
    return [case if by_default(case) else _full(case) for case in cases]


def _full(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.full)
