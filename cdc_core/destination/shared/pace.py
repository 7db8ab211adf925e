"""When destinations share a connection: pure decisions."""

from __future__ import annotations

from cdc_core.binlog.block import Block
from cdc_core.binlog.events import GTIDS, EventType

_LEAST = 2  # destinations; one alone goes on by its own connection


def is_beginning(last: Block) -> bool:
    """Whether a shared connection may begin with a block, the last one of a destination: at a transaction's start."""
    first = int(last.index["type"][0]) if len(last.index) else -1
    return bool(GTIDS[first]) or first == EventType.QUERY if first >= 0 else False


def enough(destinations: int) -> bool:
    """Whether so many destinations of one server share a connection."""
    return destinations >= _LEAST
