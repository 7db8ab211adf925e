"""Which faults happen when, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.failover import SESSION

# How often each comes. `active` and `standby` are who they are at that moment.
WEIGHTS = {
    "kill active": 4,
    "pause active": 4,
    "cut active": 4,
    "expire active": 3,
    "kill standby": 1,
    "pause standby": 1,
    "cut standby": 1,
    "expire standby": 1,
    "kill zookeeper": 1,
    "kill mysql": 1,
}
_APART = (0.5, 7.0)  # seconds
_LASTS = (0.1, 2.5 * SESSION)  # seconds: shorter and longer than a session


@dataclass(frozen=True, slots=True)
class Fault:
    """`at` and `until` are seconds since the beginning."""

    at: float
    until: float
    what: str


def draw(rng: random.Random, seconds: float) -> Iterator[Fault]:
    """Faults in order of `at`; some begin while others last."""
    at = rng.uniform(*_APART)
    while at < seconds:
        (what,) = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        yield Fault(at, at + rng.uniform(*_LASTS), what)
        at += rng.uniform(*_APART)
