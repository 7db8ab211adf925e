"""Reads from a table's log what the commits of a claim's range did.

A commit's user metadata has the service's counts; its operation metrics have Delta's counts. So a retry is judged by
the same numbers as the first try: a batch that failed its checks fails them again when it is claimed again, also with
other boundaries. Rows in the lake whose commit the log no longer has cannot be judged, which is reported.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from cdc_core.client.changes import PlanCounts
from cdc_core.contract.claim import Claim
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.sql_text import shown
from spark_jobs.apply.decision import Decision
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import DeltaCommit
from spark_jobs.lake.tables import Lake

_TEXT = 1_000  # characters of a statement that a commit keeps


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """The source's operations that a commit covers, and their net effect: rows, upserts and deletes by key, and how
    many keys `gained` a row or `lost` theirs (None without a key, and in older notes)."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    net_rows: int = 0
    upserts: int = 0
    net_deletes: int = 0
    gained: int | None = None
    lost: int | None = None

    @classmethod
    def from_plan(cls, counts: PlanCounts) -> SourceCounts:
        return cls(
            inserts=counts.raw_inserts,
            updates=counts.raw_updates,
            deletes=counts.raw_deletes,
            net_rows=counts.rows,
            upserts=counts.upserts,
            net_deletes=counts.deletes,
            gained=counts.gained,
            lost=counts.lost,
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table: it covers the rows after version `after` up to version `end`.

    `source` is what the service counted; `inserted`, `updated` and `deleted` are the rows that Delta counted.
    `recurring`: rows that come again from an earlier epoch may be among them. `soft`: deletes left their rows.
    `expected`: the results of the table's expectations. `held`: rows waited in its quarantine before it or after it.
    """

    end: int
    after: int | None = None
    recurring: bool = False
    soft: bool = False
    source: SourceCounts = SourceCounts()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    delta_version: int | None = None
    expected: tuple[ExpectationResult, ...] = ()
    held: bool = False

    @property
    def doubt(self) -> Doubt:
        """Returns the rows of a table with a key that were not as the source's changes presume, by sums: in one commit,
        an insert that met a row hides an update that found no row. With soft deletes, sums do not show it, nor do they
        while rows wait: these may be the ones that are missed."""
        if self.recurring or self.soft or self.held:
            return Doubt()
        if self.source.gained is None or self.source.lost is None:  # noted before these were counted
            more, less = self.inserted - self.deleted - (self.source.inserts - self.source.deletes), 0
        else:
            more, less = self.inserted - self.source.gained, self.source.lost - self.deleted
        return Doubt(met=max(0, -more) + max(0, -less), missed=max(0, more) + max(0, less))

    @property
    def written(self) -> int:
        """The keys whose rows the commit had to write."""
        return self.source.net_rows if self.soft else self.source.upserts


@dataclass(frozen=True, slots=True)
class Earlier:
    """The commits of earlier tries of a claim's range. `unjudged` says why they cannot be judged, "" when they can."""

    commits: tuple[Commit, ...] = ()
    unjudged: str = ""


def note(claim: Claim, table: str, run_id: str, after: int | None, counts: PlanCounts, *, soft: bool = False) -> str:
    """Delta's user metadata of a batch's commit, as JSON. `soft`: deletes left their rows."""
    positions = {"start": str(claim.start), "end": str(claim.end), "low": claim.start.version()}
    return _json(
        _owner(claim, table)
        | {"batch_id": claim.batch_id, "run_id": run_id, "gtid": str(claim.end.gtid or ""), "after": after}
        | positions
        | {"version": claim.end.version(), "counts": asdict(SourceCounts.from_plan(counts))}
        | ({"soft": True} if soft else {})
    )


def ddl_note(claim: Claim, table: str, run_id: str, kind: str, ddl: Ddl, version: int, *, mending: bool = False) -> str:
    """Returns Delta's user metadata of the commit that follows a DDL statement, as JSON. `mending`: the statement
    resumes a stopped table."""
    fields = {"batch_id": claim.batch_id, "run_id": run_id, "version": version, "ddl": kind, "mends": mending}
    fields |= {"gtid": str(claim.end.gtid or "")}
    return _json(_owner(claim, table) | fields | {"position": str(ddl.position), "text": shown(ddl.text, _TEXT)})


def log_note(owner: Ledger, table: str, epoch: int, after: int, upto: int, run_id: str) -> str:
    """Returns Delta's user metadata of the commit that merges a part of the table's log, as JSON: the rows of `epoch`
    after version `after` up to `upto`."""
    fields = {"destination": owner.destination, "client_id": owner.client_id, "epoch": epoch, "table": table}
    return _json(fields | {"run_id": run_id, "gtid": "", "version": upto, "log": {"after": after}})


def cascade_note(claim: Claim, table: str, run_id: str, high: int | None) -> str:
    """Returns Delta's user metadata of the commit that follows foreign keys' cascades in a claim, as JSON. `high`: the
    version up to which the rows may be, None if that is not known."""
    fields = {"batch_id": claim.batch_id, "run_id": run_id, "gtid": str(claim.end.gtid or "")}
    fields |= {"low": claim.start.version(), "version": claim.end.version()}
    return _json(_owner(claim, table) | fields | {"cascade": {"high": high}})


def is_step(commit: DeltaCommit, claim: Claim, table: str, version: int) -> bool:
    """Whether the commit is the one of a statement's step."""
    noted = _note_in(commit)
    return "ddl" in noted and noted["version"] == version and _owner(claim, table).items() <= noted.items()


def mends(commit: DeltaCommit) -> bool:
    """Whether the commit of a step ended the stop of its table."""
    return bool(_note_in(commit).get("mends"))


def earlier_commits(lake: Lake, path: str, claim: Claim, decision: Decision, after: int | None) -> Earlier:
    """Returns the commits of earlier tries of this range, for a table ahead of the claim's start: at version
    `after`."""
    start, end = claim.start.version(), claim.end.version()
    if not decision.keyed:  # rows up to there are in commits of other epochs
        start = max(start, decision.recurs_to or 0)
    if after is None or min(after, end) <= start:
        return Earlier()
    owner = _owner(claim, decision.table)
    found: list[Commit] = []
    whole = copied = False  # `whole`: the log goes back to the claim's start
    for commit in lake.commits(path):
        noted = _note_in(commit)
        if owner.items() <= noted.items():
            if "copy" in noted or "log" in noted:  # earlier rows came with it, so no commit before it counts
                whole, copied = True, noted["version"] > start
                break
            if "ddl" in noted:  # the claim's rows are all after its statements
                if found or noted["version"] > start:
                    return Earlier(tuple(reversed(found)))
                break
            low = max(noted["after"] or 0, noted["low"])
            if noted["version"] > start and low < end:
                found.append(_commit(commit, noted, decision))
            whole = low <= start
        if whole or commit.version == 0:
            whole = True
            break
    if not whole or not (found or copied):
        return Earlier(unjudged="the lake has rows of this batch already, but its log has no commit with them")
    return Earlier(tuple(reversed(found)))


def _owner(claim: Claim, table: str) -> dict[str, Any]:
    fields = {"destination": claim.destination, "client_id": claim.client_id, "epoch": claim.epoch}
    return {**fields, "table": table}


def _json(fields: dict[str, Any]) -> str:
    """As JSON without a `$`: Spark would replace a `${...}`, as in every setting."""
    return json.dumps(fields).replace("$", "\\u0024")


def _commit(commit: DeltaCommit, noted: dict[str, Any], decision: Decision) -> Commit:
    return Commit(
        end=noted["version"],
        after=noted["after"],
        recurring=decision.may_recur(noted["after"], noted["low"]),
        soft=bool(noted.get("soft")),
        source=SourceCounts(**noted["counts"]),
        inserted=commit.inserted,
        updated=commit.updated,
        deleted=commit.deleted,
        delta_version=commit.version,
        expected=tuple(ExpectationResult.of(name, fields) for name, fields in noted.get("expected", {}).items()),
        held=bool(noted.get("held")),
    )


def _note_in(commit: DeltaCommit) -> dict[str, Any]:
    """The note in a commit's user metadata, empty for a commit that is not a batch's, a statement's, a copy's or a
    log's."""
    note = commit.note
    return note if {"counts", "ddl", "copy", "log"} & note.keys() else {}
