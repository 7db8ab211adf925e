"""How far a client's rows reached its lake, as the service knows it: what a lake must have before it takes more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc_core.position import EntryPosition, LogPosition


class How(StrEnum):
    """How the place was reached. A value never changes: it is kept beside cursors."""

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


def mark_of(cursor: LogPosition) -> str:
    """What is kept of a cursor that this service wrote, to see that another program moved it."""
    return f"{cursor.address}:{cursor.port}/{cursor.postion}"


def resumed(cursor: LogPosition, kept: Reached | None, mark: str | None, epoch: int) -> Reached:
    """What a client has reached that goes on at its kept `cursor`. `mark` is that of the cursor that this service wrote
    last; None where an older version did not keep it. `epoch` is the present one."""
    if kept is not None and mark is not None:
        return Reached(How.FOREIGN, epoch, cursor.postion) if _is_foreign(cursor, mark) else kept
    if kept is not None and kept.epoch == epoch:
        return kept
    # of an older version, or a Java Canal's: nothing was acked since the client began, or since its epoch did
    return Reached(How.RESET if epoch else How.START, epoch, cursor.postion)


def _is_foreign(cursor: LogPosition, mark: str) -> bool:
    """Whether another program moved the cursor. One that it set back on the same server loses nothing."""
    address, _, place = mark.partition("/")
    journal_name, _, offset = place.rpartition(":")
    own = EntryPosition(journal_name, int(offset))
    if address == f"{cursor.address}:{cursor.port}":
        return cursor.postion > own
    same_port = address.rpartition(":")[2] == str(cursor.port)  # the host may have been named in another way
    return not (same_port and cursor.postion == own)
