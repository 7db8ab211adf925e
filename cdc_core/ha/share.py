"""Whose turn it is: destinations are dealt out to the servers like cards, and the others let the next one go first."""

from __future__ import annotations

from collections.abc import Sequence

STEP = 0.5  # seconds for the one before
_LONGEST = 1.0


def turn(destination: str, destinations: Sequence[str], server: str, servers: Sequence[str]) -> float:
    """Seconds for which `server` lets others compete first. Both lists are sorted and the same everywhere, so that
    all agree without a word; where they are not, a wait is longer than need be."""
    if server not in servers or destination not in destinations:
        return 0.0
    behind = (servers.index(server) - destinations.index(destination)) % len(servers)
    return min(behind * STEP, _LONGEST)
