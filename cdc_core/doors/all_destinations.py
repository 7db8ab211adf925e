"""All destinations of a server at one moment, for pages, metrics and readiness."""

from __future__ import annotations

from cdc_core.destination.runner import Destination
from cdc_core.errors import UnknownDestination
from cdc_core.server.server import CanalServer


def all_destinations(server: CanalServer) -> dict[str, Destination]:
    """By name; one that was removed meanwhile is left out."""
    found = {}
    for name in server.destinations():
        try:
            found[name] = server.destination(name)
        except UnknownDestination:
            continue
    return found
