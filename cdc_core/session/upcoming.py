"""What a client's next claim will be, when that is certain: so it can be made ready before the client asks."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.binlog.block import BlockSlice
from cdc_core.gtid import Gtid, Gtids

BEHIND = 1 << 20  # bytes that must lie after a range, so that it does not grow any more


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The events from `low` to `high` in the log, and the GTIDs before them. Nothing is claimed."""

    low: int
    high: int
    gtid: Gtid | Gtids | None
    slices: list[BlockSlice]

    @property
    def span(self) -> tuple[int, int]:
        return self.low, self.high
