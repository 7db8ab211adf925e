"""Whether the service is ready: every destination hears from its source, rests on purpose, or runs elsewhere."""

from __future__ import annotations

from typing import Any

from cdc_core.destination.runner import Destination
from cdc_core.doors.all_destinations import all_destinations
from cdc_core.server.server import CanalServer

STALE_HEARTBEATS = 3  # missed heartbeats after which a connection counts as dead


def not_ready(server: CanalServer) -> list[dict[str, Any]]:
    """The destinations that are not ready, each with message and hint."""
    reasons = ((name, _reason(destination)) for name, destination in all_destinations(server).items())
    return [{"destination": name, **reason} for name, reason in reasons if reason is not None]


def _reason(destination: Destination) -> dict[str, Any] | None:
    """Why the destination is not ready; None when it is."""
    status = destination.status()
    if status.note:  # it rests on purpose
        return None
    if status.error is not None:
        return status.error.to_dict()
    if status.active is not None:
        return None if status.active.address else {"message": "no server runs it yet", "hint": "Wait some seconds."}
    if status.state != "running":
        return {"message": f"the destination is {status.state}", "hint": "Wait, or see the service's log."}
    if not status.source.connected:
        return {"message": "the source is not connected", "hint": "Wait for the reconnect, or see the service's log."}
    return _stale(destination)


def _stale(destination: Destination) -> dict[str, Any] | None:
    age = destination.metrics().heartbeat_age_seconds
    limit = STALE_HEARTBEATS * destination.config.heartbeat_seconds
    if age is None or age <= limit:
        return None
    return {"message": f"the source has been silent for {age:.0f} s", "hint": "Check the network path to it."}
