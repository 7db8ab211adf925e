"""The outcome of a claim in the lake: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.apply.commits import Commit, Earlier, SourceCounts
from spark_jobs.apply.decision import Decision
from spark_jobs.expectations.results import ExpectationResult, summed
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.ledger import TableNote
from spark_jobs.lake.remedy import copy_hint, spelled_out
from spark_jobs.landing.append import Landed
from spark_jobs.union.publish import Published

DONE_BEFORE = "done before"  # the outcome of a statement that an earlier try followed


@dataclass(frozen=True, slots=True)
class TableResult:
    """A table that took its share of a claim.

    `commit` is what this try added, None when the table had every row already. `earlier` is what earlier tries of the
    range committed; the checks judge it again. `odd`: the rows of `commit` that were not as the source's changes
    presume, where they were counted by key. `written`: the table has the claim's end as its version. `created` and
    `added_columns` say how the table changed. `merge_seconds` is the time that it took, `applied_at` the second since
    the epoch at which it was done, `planned_at` that at which it was ready to be written, 0 if nothing was to be
    written. `engine`: what made the commit, "" where this try made none.
    """

    decision: Decision
    commit: Commit | None = None
    earlier: Earlier = field(default_factory=Earlier)
    written: bool = False
    created: bool = False
    added_columns: tuple[str, ...] = ()
    odd: Doubt = field(default_factory=Doubt)
    merge_seconds: float = 0.0
    planned_at: float = 0.0
    applied_at: float = 0.0
    engine: str = ""

    @property
    def table(self) -> str:
        return self.decision.table

    @property
    def replayed(self) -> bool:
        return self.commit is None

    @property
    def source(self) -> SourceCounts:
        """The source's operations that this try added."""
        return self.commit.source if self.commit else SourceCounts()

    @property
    def delta_version(self) -> int | None:
        return self.commit.delta_version if self.commit else self.decision.delta_version

    @property
    def commits(self) -> tuple[Commit, ...]:
        """Every commit that the claim's rows are in, in order."""
        return self.earlier.commits + ((self.commit,) if self.commit else ())

    @property
    def expected(self) -> tuple[ExpectationResult, ...]:
        """The results of the table's expectations, each once."""
        return summed(one for commit in self.commits for one in commit.expected)

    @property
    def doubt(self) -> Doubt:
        """The rows of a table with a key that were not as the source's changes presume."""
        commits = self.earlier.commits if self.odd else self.commits
        return sum((commit.doubt for commit in commits if self.decision.keyed), start=self.odd)


@dataclass(frozen=True, slots=True)
class Followed:
    """A DDL statement that a table followed, and its outcome in the lake. `origin`: the table whose rows it has by a
    RENAME."""

    table: str
    kind: str
    text: str
    position: EntryPosition
    outcome: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A table that cannot take its share of a claim, and why. `copy_needed`: its rows in the lake are wrong already.
    `expected`: the results of its expectations, if these stopped it."""

    table: str
    error: TableStopped
    copy_needed: bool = False
    expected: tuple[ExpectationResult, ...] = ()

    @property
    def is_blocked(self) -> bool:
        """Whether its rows break what is expected of them, so that a person may accept them."""
        return isinstance(self.error, TableBlocked)

    def with_remedy(self, destination: str) -> Refusal:
        """Returns the same with the destination in its hint; if only a copy helps, the hint is that command."""
        if not isinstance(self.error, CopyNeeded):
            self.error.hint = spelled_out(self.error.hint, destination, self.table)
            return self
        self.error.hint = copy_hint(destination, self.table)
        return replace(self, copy_needed=True)


@dataclass(frozen=True, slots=True)
class Cascaded:
    """The rows that the cascade of one foreign key changed in its table, without the binlog."""

    table: str
    parent: str
    deleted: int
    updated: int


@dataclass(frozen=True, slots=True)
class BrokenSnapshot:
    """A snapshot that cannot be finished because of a claim, and why."""

    table: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of a claim's tables that were not stopped before, in the claim's order. `followed`: its DDL
    statements. `whole`: stopped tables that a statement or a copy made right before the rows.
    `broken`: snapshots that cannot be finished; `unapplied`: stopped tables whose changes were kept for one alone.
    `landed`: tables whose changes are in their logs; `instead`: why tables that were to be landed are merged in this
    run, if that was not reported yet. `looked_up`: as in the cascades' `Done`. `published`: the unions of the
    tables."""

    applied: tuple[TableResult, ...] = ()
    refused: tuple[Refusal, ...] = ()
    followed: tuple[Followed, ...] = ()
    cascaded: tuple[Cascaded, ...] = ()
    whole: tuple[str, ...] = ()
    broken: tuple[BrokenSnapshot, ...] = ()
    unapplied: tuple[str, ...] = ()
    landed: tuple[Landed, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    looked_up: Mapping[str, int | None] = field(default_factory=dict)
    published: tuple[Published, ...] = ()

    @property
    def log_ends(self) -> dict[str, int]:
        """How far the logs are, by table."""
        return {one.table: one.end for one in self.landed if one.end is not None}

    @property
    def table_ends(self) -> dict[str, int]:
        """The versions that this try gave to tables."""
        return {one.table: one.decision.end for one in self.applied if one.written}

    @property
    def mended(self) -> tuple[str, ...]:
        """Returns the stopped tables whose rows in the lake are now the source's at the claim's end."""
        refused = {one.table for one in self.refused}
        return tuple(table for table in self.whole if table not in refused)

    def notes(self, doubts: Mapping[str, Doubt]) -> dict[str, TableNote]:
        """Returns the ledger's notes by table; `doubts` are the doubts to note."""
        renamed = {one.table: TableNote(doubt=doubts[one.table]) for one in self.followed if one.table in doubts}
        unapplied = dict.fromkeys(self.unapplied, TableNote(stopped=True))
        mended = dict.fromkeys(self.mended, TableNote())
        applied = {result.table: _note(result, doubts.get(result.table)) for result in self.applied}
        landed = {one.table: _landed_note(one) for one in self.landed}
        return (
            renamed
            | unapplied
            | mended
            | landed
            | applied
            | {one.table: TableNote(stopped=True) for one in self.refused}
        )


def _landed_note(landed: Landed) -> TableNote:
    """`delta_version` is the log's."""
    counts = landed.counts
    return TableNote(
        inserts=counts.raw_inserts,
        updates=counts.raw_updates,
        deletes=counts.raw_deletes,
        net_rows=landed.images,
        replayed=landed.replayed,
        delta_version=landed.log_version,
    )


def _note(result: TableResult, doubt: Doubt | None) -> TableNote:
    source = result.source
    return TableNote(
        inserts=source.inserts,
        updates=source.updates,
        deletes=source.deletes,
        net_rows=source.net_rows,
        replayed=result.replayed,
        delta_version=result.delta_version,
        doubt=doubt,
    )
