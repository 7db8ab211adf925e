"""The models of the verbs that load whole tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from orchestration.verbs.orders.order import ALL, ONLY_SHOW, SOME, Cli, DryRun, Order, ReadOn, Table, Tables


class Copy(Order):
    """Reload tables of the lake from the source, each in one commit, and lift their stops.

    A table that fails does not stop the others."""

    VERB = "copy"
    SUMS = ("rows",)

    tables: Tables = Field(min_length=1, description=SOME)
    read_on: ReadOn = Field("driver", description="Who reads tables with a key: driver or executors.")


class Snapshot(Order):
    """Bring tables into the lake, or reload them, while the stream goes on.

    Start an interrupted snapshot again, and it continues where it was."""

    VERB, POOL = "snapshot", "own"
    SUMS = ("rows",)

    tables: Tables = Field([], description=ALL)
    rows_per_chunk: int = Field(250_000, ge=1, description="About how many rows a chunk has.")
    connections: int = Field(4, ge=1, description="Chunks read at once, each over its own connection.")
    rows_per_second: Annotated[float | None, Cli("--rate")] = Field(
        None, ge=1, description="The most rows a second. Default: no limit."
    )
    replica: Annotated[str, Cli("--from", metavar="HOST:PORT")] = Field(
        "", description="Read from this replica (HOST:PORT), by the same account."
    )
    read_on: ReadOn = Field("", description="Who reads: driver or executors. Default: the executors of a cluster.")
    cancel: bool = Field(False, description="End the tables' open snapshots instead.")

    @field_validator("replica")
    @classmethod
    def _is_address(cls, replica: str) -> str:
        host, _, port = replica.rpartition(":")
        if replica and not (host and port.isdigit()):
            raise ValueError("not an address; give HOST:PORT, e.g. replica1:3306")
        return replica


class Remake(Order):
    """Reload a table of the lake from its change log, without the source, in one commit."""

    VERB, POOL = "remake", "merges"

    table: Table = Field(description="database.table; the lake must have its change log.")
    begin: Annotated[str, Cli(metavar="copy|nothing|VERSION")] = Field(
        description="copy (its last copy or snapshot), nothing (its log alone), or one of its versions."
    )
    dry_run: DryRun = Field(True, description=ONLY_SHOW)

    @field_validator("begin")
    @classmethod
    def _is_begin(cls, begin: str) -> str:
        if begin not in ("copy", "nothing") and not begin.isdecimal():
            raise ValueError("write copy, nothing, or the number of a version in DESCRIBE HISTORY")
        return begin
