"""The models of the verbs for stopped and paused tables, and for rows that wait in a quarantine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from orchestration.verbs.orders.order import Cli, Order, Table, Tables


class Ddl(Order):
    """Approve or reject DDL statements that wait (policy `ask`).

    Approved, a table is reloaded with the source's present columns and rows; rejected, it stays as it was, and
    stopped."""

    VERB, BY_SHARDS = "ddl", False

    tables: Tables = Field(min_length=1, description="database.table, one or more, as their stops name them.")
    decision: str = Field(description="approve: tables are reloaded; reject: they stay as they were, and stopped.")

    @field_validator("decision")
    @classmethod
    def _is_decision(cls, decision: str) -> str:
        if decision not in ("approve", "reject"):
            raise ValueError("must be approve or reject")
        return decision

    @property
    def action(self) -> str:
        return self.decision


class Pause(Order):
    """Pause a table, or the whole destination.

    A paused table stays as it is while the others go on. No change is lost: if there were any, resume copies the table
    from the source. A paused destination reads nothing, and its cursor stays: resume it before the source purges its
    binlogs. A restart of the service resumes it too."""

    VERB, READS = "pause", False

    table: Table = Field(description="database.table, or '*', in quotes, for the whole destination.")


class Resume(Order):
    """Resume a paused or stopped table, or the whole destination.

    If changes of the table were acked meanwhile, it is copied from the source first."""

    VERB = "resume"

    table: Table = Field(
        description="database.table, or '*', in quotes, for the whole destination; its stopped tables stay stopped."
    )


class Accept(Order):
    """Take the batch at which an expectation blocked a table, as it is.

    The expectation only warns until the table has passed the batch. If changes of the table were acked meanwhile, it is
    copied from the source; a table that is merged from its change log is tried again at once."""

    VERB = "accept"

    table: Table = Field(description="database.table, as its stop names it.")


class Drop(Order):
    """Drop rows of a table's quarantine. The table stays as it is.

    Their next change at the source is evaluated like any other."""

    VERB = "drop"

    table: Table = Field(description="database.table, whose rows wait.")
    check: str = Field("", description="Only rows that failed this check.")
    keys: Annotated[list[str], Cli("--key")] = Field(
        [], description="Only rows with these keys, as the check shows them: id=5. All rows without one."
    )


class Requeue(Order):
    """Bring rows of a table's quarantine into the table, in one commit: as they are, or with other values.

    Each row is the source's last version of it, and is not evaluated again. With other values the lake differs from the
    source on purpose, until the row's next change."""

    VERB = "requeue"

    table: Table = Field(description="database.table, whose rows wait.")
    check: str = Field("", description="Only rows that failed this check.")
    keys: Annotated[list[str], Cli("--key")] = Field(
        [], description="Only rows with these keys, as the check shows them: id=5. All rows without one."
    )
    values: Annotated[list[str], Cli("--set", metavar="COLUMN=VALUE")] = Field(
        [], description="Values for all of these rows: amount=0, NULL for no value."
    )

    @property
    def given(self) -> dict[str, str]:
        """Returns the values by column."""
        return {column: value for column, _, value in (one.partition("=") for one in self.values)}

    @field_validator("values")
    @classmethod
    def _are_values(cls, values: list[str]) -> list[str]:
        columns = [one.partition("=")[0] for one in values]
        if any("=" not in one for one in values) or len(set(columns)) < len(columns):
            raise ValueError("write COLUMN=VALUE, each column once")
        return values
