"""How many claims were acked since the destination started, and how long they were out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ClaimTimes:
    """`seconds` is the sum over all acked claims, each from its claim to its ack."""

    acked: int = 0
    seconds: float = 0.0

    def note(self, seconds: float) -> None:
        self.acked += 1
        self.seconds += max(0.0, seconds)
