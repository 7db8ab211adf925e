"""Notes of tables that an expectation blocks, and of batches that a person took as they are.

They lie with the notes of tables that wait. A block notes where the batch ends; to accept it notes the same place with
a reason. Until the table has passed that place, what blocks it is a warning: a batch that comes again may be longer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_core.errors import ConfigError
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake

_BLOCKED, _ACCEPTED = "sluice.blocked.", "sluice.accepted."


@dataclass(frozen=True, slots=True)
class Blocked:
    """A table that was blocked by `checks`, at a batch that ends at version `upto` of `epoch`."""

    epoch: int
    upto: int
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Acceptances:
    """The notes of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    def blocked(self, table: str, changes: VersionRange, results: Sequence[ExpectationResult]) -> None:
        """Notes that the table does not take these changes, because of these results. Raises LakeError."""
        note = Blocked(changes.epoch, changes.upto, tuple(one.name for one in results))
        if self._notes(_BLOCKED).get(table) != json.loads(json.dumps(asdict(note))):
            self._noted.write({_BLOCKED + table: json.dumps(asdict(note))})

    def reason(self, table: str, changes: VersionRange) -> str:
        """Returns the reason for which a person accepted these changes, or "". Raises LakeError."""
        note = self._notes(_ACCEPTED).get(table)
        if note is None or (changes.epoch, changes.after or 0) >= (note["epoch"], note["upto"]):
            return ""
        return str(note["reason"])

    def accept(self, table: str, reason: str) -> Blocked:
        """Notes that a person takes the batch at which the table is blocked, and returns the block. Raises ConfigError
        for a table that is not blocked, LakeError."""
        fields = self._notes(_BLOCKED).get(table)
        if fields is None:
            hint = "Name a table whose stop says which expectation its rows fail (sluice status)."
            raise ConfigError(f"{table} is not blocked by an expectation", place=table, hint=hint)
        found = Blocked(fields["epoch"], fields["upto"], tuple(fields["checks"]))
        note = {"epoch": found.epoch, "upto": found.upto, "reason": reason}
        self._noted.write({_BLOCKED + table: "", _ACCEPTED + table: json.dumps(note)})
        return found

    def end(self, table: str) -> None:
        """Ends what a person accepted of the table. Raises LakeError."""
        self._noted.write({_ACCEPTED + table: ""})

    @property
    def _noted(self) -> Noted:
        return Noted(self.lake, self.lake.parking_path(self.destination, self.client_id))

    def _notes(self, prefix: str) -> dict[str, Any]:
        return {table: json.loads(text) for table, text in self._noted.read(prefix).items()}
