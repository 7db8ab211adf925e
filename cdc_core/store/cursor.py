"""How far somebody got in the shared log: a value, counted in events, rows and bytes since the ring was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Stands between two events: `sequence` events, holding `rows` and `nbytes`, lie before it."""

    sequence: int = 0
    rows: int = 0
    nbytes: int = 0
