"""Statements that no merged table followed, because their table had its change log alone then (`apply: append`).

The log goes on over any statement, and a merged table that was made of it would not show the statement's effect on the
rows before it. So such a table is merged again only when a copy has brought its rows. The statement is noted by table,
in an empty Delta table next to the ledger, before its claim is acked.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import TableStopped
from cdc_core.schema.ddl import Effect, EffectKind
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.record import place_from, place_text
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake

_PREFIX = "sluice.unfollowed."
_IN_LOG = (  # the log shows these
    *(EffectKind.CREATE, EffectKind.CREATE_FILLED),
    *(EffectKind.DROP, EffectKind.DROP_DATABASE, EffectKind.TRUNCATE),
)


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """The notes of one destination and client: for each table the place of the last such statement."""

    lake: Lake
    destination: str
    client_id: int

    def places(self) -> dict[str, tuple[int, int]]:
        """Epoch and version by table. Raises LakeError."""
        found = {table: place_from(text) for table, text in self._noted.read(_PREFIX).items()}
        return {table: place for table, place in found.items() if place}

    def note(self, tables: set[str], place: tuple[int, int]) -> None:
        """Notes a statement; one that comes again changes nothing. Raises LakeError."""
        there = self.places()
        new = {table for table in tables if there.get(table, (-1, 0)) < place}
        if new:
            self._noted.write({_PREFIX + table: place_text(place) for table in new})

    def check(self, table: str, state: TableState | None, path: str) -> None:
        """Raises TableStopped for a merged table that lacks such a statement: no copy has brought its rows since."""
        place = self.places().get(table)
        copied = state.copied if state else None
        if place is None or (copied is not None and copied.has(place)):
            return
        message = "it did not follow a statement that came while it had its change log alone (apply: append)"
        raise TableStopped(message, place=path, hint=copy_hint(self.destination, table))

    @property
    def _noted(self) -> Noted:
        return Noted(self.lake, self.lake.parking_path(self.destination, self.client_id))


def is_in_log(effect: Effect) -> bool:
    """Whether the table's log alone shows the statement's effect, or it changed no rows."""
    return effect.kind in _IN_LOG or (effect.kind is EffectKind.ALTER and not effect.defines)
