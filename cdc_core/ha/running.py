"""The content of a `running` node as Canal writes it, and the paths of the nodes.

    /otter/canal/cluster/{ip:port}                          a server that is alive (ephemeral)
    /otter/canal/destinations/{d}/cluster/{ip:port}         one that could run the destination (ephemeral)
    /otter/canal/destinations/{d}/running                   the one that does (ephemeral)
    /otter/canal/destinations/{d}/{client}/running          the consumer that works (ephemeral)
    /otter/canal/destinations/{d}/sluice_leader             ours: its version rises with each term
    /otter/sluice/cluster/{ip:port}                         ours: where a server's doors are (ephemeral)

Canal's `ServerRunningData`, `ClientRunningData` and `ZookeeperPathUtils`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

CLUSTER = "/otter/canal/cluster"
DOORS = "/otter/sluice/cluster"


@dataclass(frozen=True, slots=True)
class Running:
    """`address` is `ip:port`. `active` is false in the node of a server that is asked to hand over."""

    address: str
    active: bool = True
    client_id: int | None = None

    def to_json(self) -> bytes:
        """Byte for byte as Canal's."""
        fields: dict[str, object] = {"active": self.active, "address": self.address}
        if self.client_id is not None:
            fields["clientId"] = self.client_id
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Running:
        """A value that is not Canal's JSON stands for an unknown holder."""
        try:
            fields = json.loads(value)
            return cls(str(fields["address"]), bool(fields.get("active", True)), fields.get("clientId"))
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(value[:100].decode(errors="replace"))


def destination_path(destination: str, *parts: str) -> str:
    return "/".join((f"/otter/canal/destinations/{destination}", *parts))
