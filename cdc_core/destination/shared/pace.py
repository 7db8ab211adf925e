"""When destinations share a connection: pure decisions."""

from __future__ import annotations

from cdc_core.binlog.block import Block
from cdc_core.binlog.events import GTIDS, EventType
from cdc_core.config.models import InstanceConfig

_LEAST = 2  # destinations; one alone goes on by its own connection


def shareable(config: InstanceConfig) -> bool:
    """By GTID the server leaves out what a destination has, which another destination may need."""
    return config.dump_shared and not config.gtid_mode


def is_beginning(last: Block) -> bool:
    """Whether a shared connection may begin with a block, the last one of a destination: at a transaction's start."""
    first = int(last.index["type"][0]) if len(last.index) else -1
    return bool(GTIDS[first]) or first == EventType.QUERY if first >= 0 else False


def enough(destinations: int) -> bool:
    """Whether so many destinations of one server share a connection."""
    return destinations >= _LEAST


class Retry:
    """When to try again what went wrong: after a pause that each failure doubles, from `pauses[0]` to `pauses[1]`
    seconds. What lasted longer than the longest one is not held against it."""

    def __init__(self, pauses: tuple[float, float]) -> None:
        self._pauses = pauses
        self._failures = 0
        self._due = 0.0

    def __repr__(self) -> str:
        return f"<Retry failures={self._failures} due={self._due:.1f}>"

    def failed(self, now: float, lasted: float) -> None:
        shortest, longest = self._pauses
        self._failures = 0 if lasted > longest else self._failures
        self._due = now + min(shortest * 2.0 ** min(self._failures, 30), longest)
        self._failures += 1

    def ready(self, now: float) -> bool:
        return now >= self._due
