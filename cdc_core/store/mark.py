"""A mark: a place between two events of the ring's log, counted from the ring's beginning."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """`sequence` events lie before it; they hold `rows` rows, `statements` DDL statements and `nbytes` bytes. At one
    sequence, marks are equal."""

    sequence: int = 0
    rows: int = field(default=0, compare=False)
    nbytes: int = field(default=0, compare=False)
    statements: int = field(default=0, compare=False)
