"""The models of the verbs that move a destination's cursor or give its claims back."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from cdc_core.written import moment_of, position_of
from orchestration.verbs.orders.order import ONLY_SHOW, Cli, DryRun, Order


class Rollback(Order):
    """Give claimed batches back to the store; they are claimed again.

    This is safe: a batch that was merged before is recognised by its version."""

    VERB, READS = "rollback", False

    batch_id: int | None = Field(
        None, description="Give back this batch and the other claims of its run; without it, all claims."
    )


class Reset(Order):
    """Set a destination's cursor to another place: changes are read again, or skipped.

    Rows that are read again are applied once. By default it only shows what it would do."""

    VERB, READS = "reset", False

    position: Annotated[str | None, Cli(metavar="FILE:OFFSET")] = Field(
        None, description="FILE:OFFSET, where a transaction begins."
    )
    timestamp: Annotated[str | None, Cli(metavar="TIME")] = Field(
        None,
        description="2026-11-21T12:00:00Z, or milliseconds since the epoch, in quotes: the first transaction of that "
        "second, or the last before it.",
    )
    gtid: Annotated[str | None, Cli(metavar="SET")] = Field(
        None, description="A GTID set: the first transaction that is not in it."
    )
    batch: int | None = Field(
        None, description="Where this batch began: a batch_id in the metadata of a table's materializations."
    )
    materialized_by: Annotated[str | None, Cli(metavar="RUN")] = Field(
        None, description="The id of a run in Dagster: where its first batch began."
    )
    earliest: bool = Field(False, description="The oldest binlog of the source.")
    latest: bool = Field(False, description="The end of the source; set `skip` as well.")
    anew: bool = Field(False, description="The end of the source; all tables stop until they are reloaded.")
    skip: bool = Field(False, description="Allow a place ahead of the cursor: the lake never gets the changes between.")
    all_clients: Annotated[bool, Cli("--all")] = Field(False, description="Set the cursors of all clients.")
    moved: bool = Field(False, description="The source is another server now.")
    epoch: int = Field(0, ge=0, description="The least number of the new epoch: for a lake that has later ones.")
    identity: str = Field("", description="Take over this identity: the lake accepts only the writer that it knows.")
    dry_run: DryRun = Field(True, description=ONLY_SHOW)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        names = ("position", "timestamp", "gtid", "batch", "materialized_by", "earliest", "latest", "anew")
        values = [getattr(self, name) for name in names]
        given = [value for value in values if value is not None and value is not False]
        if len(given) != 1:
            raise ValueError(f"not exactly one place; give one of {', '.join(names)}")
        if self.position is not None and self.to is None:
            raise ValueError("position is not FILE:OFFSET; write it as in mysql-bin.000003:4711")
        if self.timestamp is not None and self.to is None:
            raise ValueError("timestamp is not a time; write it as in 2026-11-21T12:00:00Z, or milliseconds since 1970")
        return self

    @property
    def to(self) -> str | int | dict[str, Any] | None:
        """The place for the service's reset; None for one that only the lake knows, or that is malformed."""
        if self.gtid is not None:
            return {"gtid": self.gtid}
        if self.timestamp is not None:
            return _milliseconds(self.timestamp)
        if self.position is not None:
            place = position_of(self.position)
            return {"journalName": place.journal_name, "position": place.position} if place else None
        return next((end for end in ("earliest", "latest", "anew") if getattr(self, end)), None)


def _milliseconds(timestamp: str) -> int | None:
    """From milliseconds, or from a date and time; without a time zone it is local time."""
    if timestamp.isascii() and timestamp.isdigit():
        return int(timestamp)
    moment = moment_of(timestamp)
    return int(moment.timestamp() * 1000) if moment else None
