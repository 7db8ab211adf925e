"""One run's notes of the tables that it lands or not. Safe to use for several tables at the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from deltalake import DeltaTable


@dataclass(slots=True)
class Notes:
    """`instead`: why tables are merged in this run although they should be landed; `reported`: the tables among them
    that the run's log names. `checked`: (table, epoch) whose log was compared with the ledger. `merged`: tables whose
    log is merged whole, and has got nothing since; `unfollowed`: the statements that merged tables lack, as they were
    read once. `past`: by table and epoch, the version up to which changes went past its log. `quarantines`: the tables
    that have one, as they were listed once."""

    instead: dict[str, str] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    checked: set[tuple[str, int]] = field(default_factory=set)
    ledger: tuple[DeltaTable | None, ...] = ()
    swept: bool = False
    merged: set[str] = field(default_factory=set)
    unfollowed: tuple[dict[str, tuple[int, int]], ...] = ()
    past: dict[str, Mapping[int, int]] = field(default_factory=dict)
    quarantines: frozenset[str] | None = None

    def forget(self, renamed: Collection[str]) -> None:
        """Forgets tables that have other tables' rows by now, which went past their logs, and their quarantines."""
        if renamed:
            self.quarantines = None
        self.checked = {one for one in self.checked if one[0] not in renamed}

    def unreported(self) -> dict[str, str]:
        """Returns the reasons that were not reported yet, and marks them as reported."""
        new = {table: why for table, why in self.instead.items() if table not in self.reported}
        self.reported.update(new)
        return new
