"""Tables whose merge failed: why, how often it was tried, and when the next try is due.

A parked table keeps its log, so nothing is lost; the others go on. The notes are properties of an empty Delta table
beside the ledger. They are not in the log itself: a change of its properties would refuse the append of a run that
lands at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from cdc_core.errors import LakeError, SluiceError
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.tables import Lake

_PREFIX = "sluice.parked."
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0  # seconds behind the first failure, and at most
_TRIES = 20  # a try is lost to a commit that came in between


@dataclass(frozen=True, slots=True)
class Parked:
    """A table that waits. Times are in seconds since 1970; `since`: when it failed first."""

    table: str
    reason: str
    hint: str
    tries: int
    since: float
    next_try: float

    def is_due(self, now: float) -> bool:
        return now >= self.next_try


@dataclass(frozen=True, slots=True)
class Parking:
    """The notes of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    @property
    def path(self) -> str:
        return self.lake.parking_path(self.destination, self.client_id)

    def tables(self) -> dict[str, Parked]:
        """The tables that wait. Raises LakeError."""
        try:
            properties = self.lake.open(self.path).metadata().configuration
        except TableNotFoundError:
            return {}
        except (DeltaError, OSError) as error:
            raise self._away(error) from error
        notes = (json.loads(text) for key, text in properties.items() if key.startswith(_PREFIX) and text)
        return {note["table"]: Parked(**note) for note in notes}

    def park(self, table: str, error: SluiceError, now: float) -> Parked:
        """Notes one more failure of the table."""
        before = self.tables().get(table)
        tries = (before.tries if before else 0) + 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10))
        reason = f"{error.message} at {error.place}" if error.place else error.message
        noted = Parked(table, reason[:1000], error.hint[:1000], tries, before.since if before else now, now + pause)
        self._note({_PREFIX + table: json.dumps(asdict(noted))})
        return noted

    def free(self, table: str) -> None:
        """The table goes on."""
        if table in self.tables():
            self._note({_PREFIX + table: ""})

    def _note(self, properties: Mapping[str, str]) -> None:
        storage = self.lake.storage or None
        for _ in range(_TRIES):
            try:
                schema = Schema([Field("note", PrimitiveType("string"))])
                there = DeltaTable.create(self.path, schema, mode="ignore", storage_options=storage)
                there.alter.set_table_properties(dict(properties), raise_if_not_exists=False)
            except CommitFailedError:
                continue
            except (DeltaError, OSError) as error:
                raise self._away(error) from error
            return
        hint = "See that nobody else writes it. Nothing is lost: the logs are there."
        raise LakeError("others keep committing to the notes", place=self.path, hint=hint)

    def _away(self, error: BaseException) -> LakeError:
        hint = "Make the lake readable and writable. Nothing is lost: the logs are there."
        return LakeError(f"the notes of tables that wait are away: {first_line(error)}", place=self.path, hint=hint)
