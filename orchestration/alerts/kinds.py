"""The kinds of trouble: how long each must last before it is said, and the words for its beginning and its end.

A new kind is a member of `Kind` and a line of `WORDS`; what finds it is in `orchestration.sensors.conditions`, and for
those of the monitor in `cdc_core.monitor.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

_BRIEF = 60.0  # seconds that a restart, a reconnect or a slow batch may take


class Kind(StrEnum):
    """What may be wrong, as `kinds` in defs.yaml names it; the last ones are the monitor's."""

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
    CLUSTER = "cluster"
    NO_LEADER = "no_leader"
    FLAPPING = "flapping"
    NO_CLIENT = "no_client"
    CLIENT_LAG = "client_lag"
    SOURCE = "source"
    NODES = "nodes"


OPTIONAL = frozenset({Kind.WARNINGS})
"""Kinds that are said only where defs.yaml names them."""

OF_MONITOR = frozenset(
    {Kind.CLUSTER, Kind.NO_LEADER, Kind.FLAPPING, Kind.NO_CLIENT, Kind.CLIENT_LAG, Kind.SOURCE, Kind.NODES}
)
"""Kinds that the monitor alone finds; it finds `binlog` too."""


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
    Kind.CLUSTER: Words("ZooKeeper does not answer", "ZooKeeper answers again", wait=_BRIEF),
    Kind.NO_LEADER: Words(
        "no server runs {n} destinations",
        "{n} destinations run again",
        "no server runs a destination",
        "a destination runs again",
        wait=_BRIEF,
    ),
    Kind.FLAPPING: Words("{n} things come and go", "{n} things stay", "something comes and goes", "it stays"),
    Kind.NO_CLIENT: Words(
        "nobody reads {n} clients", "{n} clients are read again", "nobody reads a client", "a client is read again"
    ),
    Kind.CLIENT_LAG: Words(
        "{n} clients are behind",
        "{n} clients have caught up",
        "a client is behind",
        "a client has caught up",
        wait=_BRIEF,
        level="warning",
    ),
    Kind.SOURCE: Words(
        "{n} MySQL servers cannot be asked",
        "{n} MySQL servers can be asked again",
        "a MySQL server cannot be asked",
        "a MySQL server can be asked again",
        wait=_BRIEF,
        level="warning",
    ),
    Kind.NODES: Words(
        "nodes of {n} destinations are not understood",
        "nodes of {n} destinations are understood again",
        "nodes of a destination are not understood",
        "nodes of a destination are understood again",
        wait=_BRIEF,
        level="warning",
    ),
}
