"""A fair share: destinations are dealt out to the servers like cards, and the others let each go first in its turn."""

from __future__ import annotations

from collections.abc import Sequence

STEP = 0.5  # seconds for each server that goes first
_LONGEST = 1.0


def turn(destination: str, destinations: Sequence[str], server: str, servers: Sequence[str]) -> float:
    """The seconds for which `server` lets others compete first. Both lists are sorted and the same on every server, so
    that all agree without talking; where the lists differ, a server waits longer than it need."""
    if server not in servers or destination not in destinations:
        return 0.0
    behind = (servers.index(server) - destinations.index(destination)) % len(servers)
    return min(behind * STEP, _LONGEST)
