"""The result of merging a table's log."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_jobs.expectations.results import ExpectationResult, summed
from spark_jobs.following.pending import Pending
from spark_jobs.write.order import SQL, Outcome


@dataclass(frozen=True, slots=True)
class Merged:
    """The parts, and the rows of the log in them; `inserted`, `updated` and `deleted` as Delta counted them. The table
    has its log up to version `upto` of `epoch`. `since`: when the oldest of the rows landed; `merged_at`: when they
    were in the table, in seconds since 1970. `contradiction`: why the table must take no more changes, or "";
    `view_error`: why its view was not rebuilt, or "". `engine`: what made the last commit. `expected`: the results of
    the table's expectations. Falsy if there was nothing to merge."""

    table: str
    parts: int = 0
    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    epoch: int = 0
    upto: int = 0
    delta_version: int | None = None
    since: float = 0.0
    merged_at: float = 0.0
    seconds: float = 0.0
    added_columns: tuple[str, ...] = ()
    contradiction: str = ""
    view_error: str = ""
    engine: str = SQL
    expected: tuple[ExpectationResult, ...] = ()

    @classmethod
    def of(cls, found: Pending, commit: Outcome | None, merged_at: float, seconds: float) -> Merged:
        """Returns the result of a part by its `commit`, which is None if another run has made one of that version."""
        part, made = found.part, commit or Outcome()
        return cls(
            found.table,
            parts=1,
            rows=part.rows,
            inserted=made.inserted,
            updated=made.updated,
            deleted=made.deleted,
            epoch=part.epoch,
            upto=part.upto,
            delta_version=commit.version if commit else None,
            since=part.since,
            merged_at=merged_at,
            seconds=seconds,
        )

    def __bool__(self) -> bool:
        return self.parts > 0

    def __add__(self, later: Merged) -> Merged:
        if not self or not later:
            return self or later
        counts = {name: getattr(self, name) + getattr(later, name) for name in _ADDED}
        expected = summed((*self.expected, *later.expected))
        return replace(later, since=min(self.since, later.since), expected=expected, **counts)


_ADDED = ("parts", "rows", "inserted", "updated", "deleted", "seconds", "added_columns")
