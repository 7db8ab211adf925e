"""Reasons to doubt a table: rows that were not in the lake as the source's changes presume."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = 10  # examples kept for a table


@dataclass(frozen=True, slots=True)
class Doubt:
    """`met`: inserts whose key had a row already; `missed`: updates and deletes whose key had no row. Both are lower
    bounds. `keys`: some of these keys, at most `KEYS`. Falsy without any."""

    met: int = 0
    missed: int = 0
    keys: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.rows > 0

    @property
    def rows(self) -> int:
        return self.met + self.missed

    def __add__(self, other: Doubt) -> Doubt:
        keys = tuple(dict.fromkeys(self.keys + other.keys))[:KEYS]
        return Doubt(self.met + other.met, self.missed + other.missed, keys)

    @property
    def text(self) -> str:
        parts = [f"{self.met} inserts met a row in the lake"] if self.met else []
        parts += [f"{self.missed} updates or deletes found no row"] if self.missed else []
        return "; ".join(parts)
