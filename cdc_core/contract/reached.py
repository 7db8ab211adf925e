"""How far a client's rows reached its lake, as the service knows it: what a lake must have before it takes more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc_core.position import EntryPosition


class How(StrEnum):
    """How the place was reached. A value never changes: it is kept with cursors."""

    BATCH = "batch"  # the last acked batch with rows ends there
    START = "start"  # there was no cursor: the client began there
    RESET = "reset"  # an operator set the cursor there; what lies before is skipped, or comes again, on purpose
    LOST = "lost"  # canal.auto.reset.latest.pos.mode gave up the cursor, which the source no longer had
    FOREIGN = "foreign"  # another program moved the cursor there


@dataclass(frozen=True, slots=True)
class Reached:
    """Up to `position`, all rows of `epoch` were acked, or the client was set there. From there to its cursor are no
    rows."""

    how: How
    epoch: int
    position: EntryPosition

    def after(self, epoch: int, end: EntryPosition) -> Reached:
        """The same after the ack of a batch with rows. A batch that came again changes nothing."""
        known = (self.how, self.epoch) == (How.BATCH, epoch) and end <= self.position
        return self if known else Reached(How.BATCH, epoch, end)

    def to_dict(self) -> dict[str, Any]:
        return {"how": self.how.value, "epoch": self.epoch, **self.position.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Reached:
        """A node of an older version has no `how`: it is a batch's end."""
        position = EntryPosition.from_dict(dict(fields))
        return cls(How(fields.get("how", How.BATCH)), int(fields["epoch"]), position)
