"""The kinds of trouble: how long each must last before it is said, and the words for its beginning and its end.

A new kind is a member of `Kind` and a line of `WORDS`; what finds it is in `orchestration.sensors.conditions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

_BRIEF = 60.0  # seconds that a restart, a reconnect or a slow batch may take


class Kind(StrEnum):
    """What may be wrong, as `kinds` in defs.yaml names it."""

    STOPPED = "stopped"
    BLOCKED = "blocked"
    LAG = "lag"
    BINLOG = "binlog"
    DESTINATION = "destination"
    SERVICE = "service"
    RUNS = "runs"
    CHECKS = "checks"
    QUARANTINED = "quarantined"
    WARNINGS = "warnings"


OPTIONAL = frozenset({Kind.WARNINGS})
"""Kinds that are said only where defs.yaml names them."""


@dataclass(frozen=True, slots=True)
class Words:
    """`began` and `ended` follow the destination's name, or the number of things in the place of `{n}`; `one` is for a
    single thing. `wait`: how many seconds it must last."""

    began: str
    ended: str
    one: str = ""
    one_ended: str = ""
    wait: float = 0.0
    level: Literal["failure", "warning"] = "failure"

    def title(self, count: int, *, ended: bool) -> str:
        single, several = (self.one_ended, self.ended) if ended else (self.one, self.began)
        return (single if single and count == 1 else several).format(n=f"{count:,}")


WORDS: Mapping[Kind, Words] = {
    Kind.STOPPED: Words("{n} tables are stopped", "{n} tables go on", "a table is stopped", "a table goes on"),
    Kind.BLOCKED: Words("{n} tables are blocked", "{n} tables go on", "a table is blocked", "a table goes on"),
    Kind.LAG: Words("the lake is behind", "the lake has caught up", wait=_BRIEF, level="warning"),
    Kind.BINLOG: Words(
        "the source may purge changes before they are read", "the source keeps all changes that are not read"
    ),
    Kind.DESTINATION: Words("the destination is in trouble", "the destination is well again", wait=_BRIEF),
    Kind.SERVICE: Words("the service is not available", "the service is available again", wait=_BRIEF),
    Kind.RUNS: Words("runs of {n} jobs fail", "runs of {n} jobs succeed again", "runs fail", "runs succeed again"),
    Kind.CHECKS: Words("{n} checks fail", "{n} checks pass again", "a check fails", "a check passes again"),
    Kind.QUARANTINED: Words(
        "rows of {n} checks wait in quarantines",
        "no rows of {n} checks wait in quarantines any more",
        "rows wait in a quarantine",
        "no rows wait in a quarantine any more",
        level="warning",
    ),
    Kind.WARNINGS: Words(
        "{n} checks warn", "{n} checks pass again", "a check warns", "a check passes again", level="warning"
    ),
}
