"""Which of a destination's servers is read, and its last switch from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch from one server's address to the other's; `at` in seconds since the epoch."""

    origin: str
    to: str
    why: str
    at: float

    def to_dict(self) -> dict[str, Any]:
        return {"from": self.origin, "to": self.to, "why": self.why, "at": self.at}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Switch:
        return cls(fields["from"], fields["to"], fields["why"], fields["at"])


@dataclass(frozen=True, slots=True)
class Detected:
    """Which server is read, `master` or `standby`, and what its heartbeat found. `failures` in a row is None without a
    heartbeat; `switched` is the last switch, None before the first."""

    role: str
    failures: int | None = None
    switches: int = 0
    switched: Switch | None = None

    def to_dict(self) -> dict[str, Any]:
        switched = self.switched.to_dict() if self.switched else None
        return {"role": self.role, "failed_heartbeats": self.failures, "switched": switched}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Detected:
        """`switches` is not in the JSON: 0."""
        switched = fields["switched"]
        return cls(fields["role"], fields["failed_heartbeats"], 0, Switch.from_dict(switched) if switched else None)
