"""When to read the other server: Canal's HeartBeatHAController as a function of what the heartbeat saw. Pure.

Source: Canal's `HeartBeatHAController`, `MysqlDetectingTimeTask`. Ours besides: the other server must answer the same
statement, so that a wrong statement, or a network of our own that is down, switches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class Rule:
    """`seconds` between two beats; `threshold` failures in a row; `switches` as heartbeatHaEnable says."""

    sql: str
    seconds: float
    threshold: int
    switches: bool


class Step(Enum):
    """What comes after a beat."""

    STAY = "stay"
    ASK = "ask the other server"
    SWITCH = "switch"


def after_beat(rule: Rule, failures: int, other: str, answers: bool | None = None) -> Step:
    """`failures` in a row, this beat's included; `other`: the other server's address, empty where there is none;
    `answers`: whether it answered just now, None while it was not asked."""
    if not rule.switches or not other or failures < rule.threshold or answers is False:
        return Step.STAY
    return Step.SWITCH if answers else Step.ASK


@dataclass(frozen=True, slots=True)
class Detected:
    """Which server is read, and what its heartbeat tells. `failures` is None without a heartbeat; `switched` is the
    last switch's line, None before the first."""

    role: str
    failures: int | None = None
    switches: int = 0
    switched: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"role": self.role, "failed_heartbeats": self.failures, "switched": self.switched}

    def metrics(self) -> dict[str, float]:
        known = {} if self.failures is None else {"source_failed_heartbeats": float(self.failures)}
        return {"source_standby": float(self.role == "standby"), "source_switches": float(self.switches), **known}
