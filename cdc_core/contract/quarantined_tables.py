"""How many rows wait in the quarantines of a client's tables, as the run that applies its batches reports it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

MOST_TABLES = 500  # that are kept for a client: those with the most rows


def bounded(rows: Mapping[str, int], most: int = MOST_TABLES) -> dict[str, int]:
    """The tables with rows that wait, by name; of very many those with the most rows."""
    waiting = ((name, count) for name, count in rows.items() if count)
    return dict(sorted(heapq.nsmallest(most, waiting, key=lambda one: (-one[1], one[0]))))
