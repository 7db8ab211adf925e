"""The decision for a table before anything is written: which rows of a claim it has already."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_core.contract.claim import TableRange
from spark_jobs.lake.progress import Range, TableProgress


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for one table's share of a claim. Versions are of `EntryPosition.version()`.

    `end`: the version of the claim's end. `after`: rows up to this version are in the table already and are left out;
    None if it has no rows. `recurs_to`: rows up to this version may come again, because an earlier epoch applied them;
    None if no row can. `delta_version`: the table's newest version, None when there is no table yet.
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
        """Whether the rows after both `after` and `start` may include repeated rows: an insert may then meet its row.
        Without a key such rows were left out."""
        return self.keyed and self.recurs_to is not None and max(after or 0, start) < self.recurs_to


def decide(table: TableRange, wanted: Range, progress: TableProgress | None) -> Decision:
    """Returns the decision for the claim's range `wanted`; `progress` is None if there is no table yet. Raises
    TableStopped if it is unknown which rows of it the table has."""
    keyed = bool(table.schema.primary_key)
    if progress is None:
        return Decision(table.name, wanted.end, keyed=keyed)
    progress = replace(progress, keyed=keyed)  # as the rows are, which may be of another definition
    after, recurs_to = progress.after(wanted.epoch), progress.repeats(wanted)
    if not keyed and recurs_to is not None:
        after = max(after or 0, recurs_to)
    return Decision(
        table.name,
        wanted.end,
        keyed=keyed,
        after=after,
        recurs_to=recurs_to,
        delta_version=progress.state.version,
    )
