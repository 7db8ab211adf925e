"""What a person can ask for, one model a verb. Its fields are a command's options and a job's configuration.

The models import nothing heavy, so that `--help` answers at once. Each names the module whose `run` does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, Field, field_validator, model_validator

from cdc_core.schema.names import split_name
from cdc_core.written import moment_of, position_of
from orchestration.verbs.access import Access
from orchestration.verbs.report import Report
from spark_jobs.lake.catalog_names import check_catalog

Pool = Literal["drain", "merges", "own"]
WHOLE = "*"  # the destination, where a table could be named


@dataclass(frozen=True, slots=True)
class Cli:
    """How a field is written in a terminal: by this flag, as an argument of that name, or else as `--its-name`."""

    flag: str = ""
    argument: str = ""
    metavar: str | None = None


Tables = Annotated[list[str], Cli(argument="table")]
ReadOn = Annotated[str, Cli(metavar="driver|executors")]
_SOME = "database.table, one or more."
_ALL = "database.table, one or more; all captured tables without one."


class Order(BaseModel):
    """What a person asks for. `VERB`: the name of the command and of the module, and how the job's name begins; `POOL`:
    with whose runs the job takes turns; `SUMS`: facts of tables that a run's summary adds up; `READS`: whether it may
    read rows of the source, so that the service must have the rules of defs.yaml first. One that does not also goes on
    while the source has failed. `BY_SHARDS`: whether a union among its tables means all of its shards."""

    VERB: ClassVar[str]
    POOL: ClassVar[Pool] = "drain"
    SUMS: ClassVar[tuple[str, ...]] = ()
    READS: ClassVar[bool] = True
    BY_SHARDS: ClassVar[bool] = True

    @property
    def action(self) -> str:
        """The word for the action in the history of an asset."""
        return f"{self.VERB}, dry run" if getattr(self, "dry_run", False) else self.VERB

    @field_validator("tables", check_fields=False)
    @classmethod
    def _each_once(cls, tables: list[str]) -> list[str]:
        for table in tables:
            _check_name(table)
        return list(dict.fromkeys(tables))

    @field_validator("table", check_fields=False)
    @classmethod
    def _is_table(cls, table: str) -> str:
        if table != WHOLE:
            _check_name(table)
        return table

    @field_validator("read_on", check_fields=False)
    @classmethod
    def _is_reader(cls, read_on: str) -> str:
        if read_on not in ("", "driver", "executors"):
            raise ValueError("must be driver or executors")
        return read_on

    def by_shards(self, at: Access) -> Self:
        """Returns the order with the shards of each union that it names. Raises ConfigError for a union where one table
        is meant, and for one without shards."""
        from orchestration.verbs.shards import shards_meant

        if hasattr(self, "tables"):
            return self.model_copy(update={"tables": shards_meant(at, self.tables, several=self.BY_SHARDS)})
        shards_meant(at, [getattr(self, "table", WHOLE)], several=False)
        return self

    def run(self, at: Access, report: Report) -> None:
        """Does it, to the shards of unions that are named; unions then have what their shards have. Raises SluiceError
        for what keeps all of it from being done; what becomes of a table is reported."""
        module, order = import_module(f"orchestration.verbs.{self.VERB}"), self.by_shards(at)
        try:
            cast(Callable[[Order, Access, Report], None], module.run)(order, at, report)
        finally:
            at.publish()


class Copy(Order):
    """Reload tables of the lake from the source, each in one commit, and lift their stops.

    A table that fails does not stop the others."""

    VERB = "copy"
    SUMS = ("rows",)

    tables: Tables = Field(min_length=1, description=_SOME)
    read_on: ReadOn = Field("driver", description="Who reads tables with a key: driver or executors.")


class Snapshot(Order):
    """Bring tables into the lake, or reload them, while the stream goes on.

    An interrupted snapshot goes on where it was when it is started again."""

    VERB, POOL = "snapshot", "own"
    SUMS = ("rows",)

    tables: Tables = Field([], description=_ALL)
    rows_per_chunk: int = Field(250_000, ge=1, description="About how many rows a chunk has.")
    connections: int = Field(4, ge=1, description="Chunks read at once, each over a connection of its own.")
    rows_per_second: Annotated[float | None, Cli("--rate")] = Field(
        None, ge=1, description="The most rows a second; without it, no limit."
    )
    replica: Annotated[str, Cli("--from", metavar="HOST:PORT")] = Field(
        "", description="Read from this replica (HOST:PORT), by the same account."
    )
    read_on: ReadOn = Field("", description="Who reads: driver or executors; by default the executors of a cluster.")
    cancel: bool = Field(False, description="End the tables' open snapshots instead.")

    @field_validator("replica")
    @classmethod
    def _is_address(cls, replica: str) -> str:
        host, _, port = replica.rpartition(":")
        if replica and not (host and port.isdigit()):
            raise ValueError("no address; give HOST:PORT, e.g. replica1:3306")
        return replica


class Remake(Order):
    """Reload a table of the lake from its change log, without the source, in one commit."""

    VERB, POOL = "remake", "merges"

    table: Annotated[str, Cli(argument="table")] = Field(
        description="database.table, of which the lake has a change log."
    )
    begin: Annotated[str, Cli(metavar="copy|nothing|VERSION")] = Field(
        description="copy (its last copy or snapshot), nothing (its log alone), or one of its versions."
    )
    dry_run: Annotated[bool, Cli("--dry-run/--yes")] = Field(
        True, description="Only show what would be done; without it, do it."
    )

    @field_validator("begin")
    @classmethod
    def _is_begin(cls, begin: str) -> str:
        if begin not in ("copy", "nothing") and not begin.isdecimal():
            raise ValueError("write copy, nothing, or the number of a version, as DESCRIBE HISTORY has it")
        return begin


class _Past(Order):
    """The fields of orders about a part of the past."""

    SUMS = ("put",)

    tables: Tables = Field([], description="database.table, one or more; all that the changes touched without one.")
    force: bool = Field(False, description="Also rows that were changed since; without it they are listed, and left.")
    dry_run: Annotated[bool, Cli("--dry-run/--yes")] = Field(
        True, description="Only show what would be done; without it, do it."
    )


class _Changes(_Past):
    """The fields that say which changes."""

    batch: Annotated[str, Cli(metavar="N|N..M")] = Field(
        "", description="A batch, or several: a batch_id in the metadata of a table's materializations."
    )
    gtid: Annotated[str, Cli(metavar="GTID")] = Field("", description="One transaction.")
    since: Annotated[str, Cli(metavar="TIME")] = Field(
        "", description="All batches that ended then or later: 2026-11-26T12:00:00Z; without a zone it is local time."
    )
    until: Annotated[str, Cli(metavar="TIME")] = Field("", description="All batches that ended then or before.")

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if sum(map(bool, (self.batch, self.gtid, self.since or self.until))) != 1:
            raise ValueError("not exactly one part of the past; give one of batch, gtid, since with or without until")
        return self


class Undo(_Changes):
    """Set rows of the lake back to what they were before batches or a transaction.

    A row that was changed since is listed and left. What is done is noted with its reason, `sluice verify` knows it,
    and `sluice redo` takes it back. By default only what it would mean is shown."""

    VERB, POOL = "undo", "own"


class Replay(_Changes):
    """Apply batches or a transaction to the lake's rows again.

    A row that is neither as before the changes nor as after them is listed and left. By default only what it would mean
    is shown."""

    VERB, POOL = "replay", "own"


class Redo(_Past):
    """Take an undo back: its rows become again what they were.

    A row that was changed since is listed and left. By default only what it would mean is shown."""

    VERB, POOL, BY_SHARDS = "redo", "own", False

    number: int = Field(0, ge=0, description="The number of the undo, as it was reported.")

    @field_validator("number")
    @classmethod
    def _is_number(cls, number: int) -> int:
        if not number:
            raise ValueError("give the number of the undo, as it was reported")
        return number


class Restore(Order):
    """Set the lake and the cursor back to one place of the source, together.

    All tables get the rows that they had there, and the next run goes on from there. Killed in between, it may be
    started again; without that the tables are right when reading has come to where it was. By default only what it
    would mean is shown."""

    VERB = "restore"

    to: Annotated[str, Cli(metavar="PLACE")] = Field(
        description="FILE:OFFSET, GTIDs, a time or a batch_id, as `sluice now --as-of` takes it."
    )
    dry_run: Annotated[bool, Cli("--dry-run/--yes")] = Field(
        True, description="Only show what would be done; without it, do it."
    )


class Maintain(Order):
    """Rewrite small files of the lake's tables, change logs and histories as large ones, and delete old ones.

    The stream goes on meanwhile. Files that a version of the last week needs stay. A table that fails does not stop the
    others."""

    VERB, POOL = "maintain", "own"
    SUMS = ("files_deleted",)

    tables: Tables = Field([], description=_ALL)
    readers: bool = Field(
        False, description="Bring tables to their layout, and to the features that their columns need: docs/readers.md."
    )
    log_retention: str = Field(
        "", description="How long change logs keep rows that their tables have: 30d, 8w. Without it, as defs.yaml says."
    )
    freshness: str = Field(
        "",
        description="The destination's freshness in defs.yaml, which the job knows, and the command by --defs. "
        "With asap a run is always there: files are rewritten while a claim can be held.",
    )


class Register(Order):
    """Register the lake's tables, change logs and histories in a catalog, as external tables at their paths.

    Missing names are made, and names that are no longer right are dropped. No file is touched, and no table that Sluice
    did not register. The stream goes on meanwhile."""

    VERB, POOL = "register", "own"

    catalog: str = Field("", description="A catalog of Spark's session. Without it: the one of the last registration.")

    @field_validator("catalog")
    @classmethod
    def _is_catalog(cls, name: str) -> str:
        if name:
            check_catalog(name)
        return name


class Verify(Order):
    """Compare source and lake, table by table, while others write.

    `repair` corrects rows that differ, of tables with a key. A table without a key is only compared."""

    VERB, POOL = "verify", "own"
    SUMS = ("repaired",)

    tables: Annotated[list[str], Cli("--table")] = Field(
        [],
        description="database.table, one or more; without one all captured tables, and those that only the lake has.",
    )
    repair: bool = Field(False, description="Correct the rows that differ; needs Spark.")
    timeout_seconds: Annotated[float, Cli("--timeout")] = Field(
        600, ge=0, description="Seconds to wait until the lake has caught up, for each table."
    )


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

    A paused table stays as it is while the others go on. No change is lost: if some came meanwhile, resume copies the
    table from the source. A paused destination reads nothing, and its cursor stays: resume it before the source purges
    its binlogs. A restart of the service resumes it too."""

    VERB, READS = "pause", False

    table: Annotated[str, Cli(argument="table")] = Field(
        description="database.table, or '*', in quotes, for the whole destination."
    )


class Resume(Order):
    """Resume a paused or stopped table, or the whole destination.

    If changes of the table were acked meanwhile, it is copied from the source first."""

    VERB = "resume"

    table: Annotated[str, Cli(argument="table")] = Field(
        description="database.table, or '*', in quotes, for the whole destination; its stopped tables stay stopped."
    )


class Accept(Order):
    """Take the batch at which an expectation blocked a table, as it is.

    What blocks the table is a warning until it has passed the batch. If its changes were acked meanwhile, it is copied
    from the source; a table that is merged from its change log is tried again at once."""

    VERB = "accept"

    table: Annotated[str, Cli(argument="table")] = Field(description="database.table, as its stop names it.")


class Drop(Order):
    """Drop rows of a table's quarantine. The table stays as it is.

    Their next change at the source is evaluated like any other."""

    VERB = "drop"

    table: Annotated[str, Cli(argument="table")] = Field(description="database.table, whose rows wait.")
    check: str = Field("", description="Only rows that failed this check.")
    keys: Annotated[list[str], Cli("--key")] = Field(
        [], description="Only rows with these keys, as the check shows them: id=5. All rows without one."
    )


class Requeue(Order):
    """Bring rows of a table's quarantine into the table, in one commit: as they are, or with other values.

    The rows are the last ones that the source had. They are not evaluated again. With values, the lake differs from the
    source on purpose, until the next change of the row."""

    VERB = "requeue"

    table: Annotated[str, Cli(argument="table")] = Field(description="database.table, whose rows wait.")
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


class Rollback(Order):
    """Give claimed batches back to the store; they are claimed again.

    This is safe: a batch that was merged before is recognised by its version."""

    VERB, READS = "rollback", False

    batch_id: int | None = Field(
        None, description="Give back this batch, and all else that its run holds; without it, all claims."
    )


class Reset(Order):
    """Set a destination's cursor to another place: changes are read again, or skipped.

    Repeated rows are in the lake once. By default only what it would mean is shown."""

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
        None, description="A set of GTIDs: the first transaction that is not in it."
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
    skip: bool = Field(False, description="Allow a place ahead of the cursor: the lake never gets what is skipped.")
    all_clients: Annotated[bool, Cli("--all")] = Field(False, description="Set the cursors of all clients.")
    moved: bool = Field(False, description="The source is another server now.")
    epoch: int = Field(0, ge=0, description="Number the new epoch so at least: where the lake has later ones.")
    identity: str = Field("", description="Take over this identity, by which the lake knows its writer.")
    dry_run: Annotated[bool, Cli("--dry-run/--yes")] = Field(
        True, description="Only show what would be done; without it, do it."
    )

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
            raise ValueError("timestamp is no time; write it as in 2026-11-21T12:00:00Z, or as milliseconds since 1970")
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


JOBS: tuple[type[Order], ...] = (
    Accept,
    Copy,
    Ddl,
    Drop,
    Maintain,
    Pause,
    Redo,
    Register,
    Remake,
    Replay,
    Requeue,
    Reset,
    Restore,
    Resume,
    Rollback,
    Snapshot,
    Undo,
    Verify,
)


def _check_name(table: str) -> None:
    """Raises ValueError for a text that does not name database and table."""
    try:
        split_name(table)
    except ValueError as error:
        raise ValueError(f"{error}; a database whose name has a dot is in backticks: `my.shop`.orders") from error


def _milliseconds(timestamp: str) -> int | None:
    """From milliseconds, or from a date and time; without a time zone it is local time."""
    if timestamp.isascii() and timestamp.isdigit():
        return int(timestamp)
    moment = moment_of(timestamp)
    return int(moment.timestamp() * 1000) if moment else None
