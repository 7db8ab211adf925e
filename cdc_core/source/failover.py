"""When to switch to the other server: a pure function of the heartbeats.

Source: Canal's `HeartBeatHAController` and `MysqlDetectingTimeTask`. Unlike in Canal, the other server must answer the
same statement: a wrong statement, or a failure of our own network, switches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class FailoverRule:
    """`seconds` between two beats; `threshold` failures in a row; `switches` is Canal's heartbeatHaEnable."""

    sql: str
    seconds: float
    threshold: int
    switches: bool


class Step(Enum):
    """What to do after a beat."""

    STAY = "stay"
    ASK = "ask the other server"
    SWITCH = "switch"


def after_beat(rule: FailoverRule, failures: int, other: str, answers: bool | None = None) -> Step:
    """`failures` in a row, with this beat. `other` is the other server's address, empty when there is none. `answers`
    says whether that server answered just now, None when it was not asked."""
    if not rule.switches or not other or failures < rule.threshold or answers is False:
        return Step.STAY
    return Step.SWITCH if answers else Step.ASK
