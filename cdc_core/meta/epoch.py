"""An epoch of a client: the stretch between two moves of its cursor on purpose, or over rows that were given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Epoch:
    """The present epoch's number, and what is known of those before.

    `moved` is the first epoch of the present source: positions of earlier epochs belong to another server. `seamless`
    has the epochs that repeat no row of the one before, each with the version of the cursor that it began after.
    """

    number: int = 0
    moved: int = 0
    seamless: Mapping[int, int] = field(default_factory=dict)
