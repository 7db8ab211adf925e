"""The models of the verbs that take changes back, or apply them again."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from orchestration.verbs.orders.order import ONLY_SHOW, Cli, DryRun, Order, Tables


class _Past(Order):
    """The fields of orders about a part of the past."""

    SUMS = ("put",)

    tables: Tables = Field([], description="database.table, one or more. Default: all tables that the changes touched.")
    force: bool = Field(False, description="Also rows that were changed since; without it they are only listed.")
    dry_run: DryRun = Field(True, description=ONLY_SHOW)


class _Changes(_Past):
    """The fields that say which changes."""

    batch: Annotated[str, Cli(metavar="N|N..M")] = Field(
        "", description="A batch, or several: a batch_id in the metadata of a table's materializations."
    )
    gtid: Annotated[str, Cli(metavar="GTID")] = Field("", description="One transaction.")
    since: Annotated[str, Cli(metavar="TIME")] = Field(
        "", description="All batches that ended then or later: 2026-11-26T12:00:00Z; local time without a zone."
    )
    until: Annotated[str, Cli(metavar="TIME")] = Field("", description="All batches that ended by then.")

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if sum(map(bool, (self.batch, self.gtid, self.since or self.until))) != 1:
            raise ValueError("give exactly one of batch, gtid, and since or until")
        return self


class Undo(_Changes):
    """Set rows of the lake back to what they were before batches or a transaction.

    Rows that were changed since are listed and not touched. The undo is recorded with its reason: `sluice verify` knows
    it, and `sluice redo` takes it back. By default it only shows what it would do."""

    VERB, POOL = "undo", "own"


class Replay(_Changes):
    """Apply batches or a transaction to the lake's rows again.

    A row is listed and not touched if it is neither as before the changes nor as after them. By default it only shows
    what it would do."""

    VERB, POOL = "replay", "own"


class Redo(_Past):
    """Take an undo back: its rows become again what they were.

    Rows that were changed since are listed and not touched. By default it only shows what it would do."""

    VERB, POOL, BY_SHARDS = "redo", "own", False

    number: int = Field(0, ge=0, description="The number that the undo reported.")

    @field_validator("number")
    @classmethod
    def _is_number(cls, number: int) -> int:
        if not number:
            raise ValueError("give the number that the undo reported")
        return number


class Restore(Order):
    """Set the lake and the cursor back to one place of the source, together.

    All tables get the rows that they had there, and the next run continues from there. If it is killed, start it again;
    otherwise the tables are right once the stream has caught up. By default it only shows what it would do."""

    VERB = "restore"

    to: Annotated[str, Cli(metavar="PLACE")] = Field(
        description="FILE:OFFSET, GTIDs, a time or a batch_id, as `sluice now --as-of` takes it."
    )
    dry_run: DryRun = Field(True, description=ONLY_SHOW)
