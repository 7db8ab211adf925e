"""What is decided for a table before anything is written: which rows of a claim it has already."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.contract.claim import Claim, TableRange
from spark_jobs.lake.state import TableState


@dataclass(frozen=True, slots=True)
class Decision:
    """For one table's share of a claim. Versions are those of `EntryPosition.version()`.

    `end`: the version of the claim's end. `after`: rows up to this version are in the table already and are left out;
    None when it has none. `recurs_to`: rows up to this version may come again, because an earlier epoch applied them;
    None when none can. `delta_version`: the table's newest version, None when there is no table yet.
    """

    table: str
    end: int
    keyed: bool = True
    after: int | None = None
    recurs_to: int | None = None
    delta_version: int | None = None

    @property
    def replay(self) -> bool:
        """Whether the table has every row of the claim, so that there is nothing to write."""
        return self.after is not None and self.after >= self.end

    def may_recur(self, after: int | None, start: int) -> bool:
        """Whether rows that come again may be among those behind both `after` and `start`: an insert may then meet
        its row. Without a key such rows were left out."""
        return self.keyed and self.recurs_to is not None and max(after or 0, start) < self.recurs_to


def decide(
    claim: Claim, table: TableRange, state: TableState | None, recurs_to: int | None, followed: int | None = None
) -> Decision:
    """`state` is the table's, None when there is none yet. `followed`: up to there the table has everything, by a DDL
    statement of an earlier epoch."""
    keyed = bool(table.schema.primary_key)
    after = state.applied if state else None
    if not keyed and recurs_to is not None:
        after = max(after or 0, recurs_to)
    if followed is not None:
        after = max(after or 0, followed)
    return Decision(
        table.name,
        claim.end.version(),
        keyed=keyed,
        after=after,
        recurs_to=recurs_to,
        delta_version=state.version if state else None,
    )
