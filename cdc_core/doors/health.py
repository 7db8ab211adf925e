"""Whether the service is ready: every destination is connected and hears from its source, rests, or runs elsewhere."""

from __future__ import annotations

from typing import Any

from cdc_core.doors.ports import InstancePort, ServerPort, instances

STALE_HEARTBEATS = 3  # heartbeats missed before a connection counts as dead


def not_ready(server: ServerPort) -> list[dict[str, Any]]:
    """One entry for each destination that is not ready, with the reason."""
    reasons = ((name, _reason(instance)) for name, instance in instances(server).items())
    return [{"destination": name, **reason} for name, reason in reasons if reason is not None]


def _reason(instance: InstancePort) -> dict[str, Any] | None:
    status = instance.status()
    if status.get("note"):  # it rests on purpose
        return None
    if status["error"] is not None:
        return dict(status["error"])
    if status["state"] == "standby":
        return None if status["active"]["address"] else {"message": "nobody runs it yet", "hint": "Wait some seconds."}
    if status["state"] != "running":
        return {"message": f"the destination is {status['state']}", "hint": "Wait, or see the service's log."}
    if not status["source"].get("connected"):
        return {"message": "the source is not connected", "hint": "Wait for the reconnect, or see the service's log."}
    return _stale(instance)


def _stale(instance: InstancePort) -> dict[str, Any] | None:
    age = instance.metrics().get("heartbeat_age_seconds")
    limit = STALE_HEARTBEATS * instance.config.heartbeat_seconds
    if age is None or age <= limit:
        return None
    return {"message": f"nothing heard from the source for {age:.0f} s", "hint": "Is the network path to it open?"}
