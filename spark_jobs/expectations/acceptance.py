"""Notes of tables that an expectation blocks, and of batches that a person accepted.

They lie with the notes of tables that wait. A block notes where the batch ends and how many rows failed; to accept it
notes the same with a reason. Until the table has passed that place, what blocks it is a warning: a batch that comes
again may be longer. A load has no beginning: until the table is loaded, loads pass in which no more rows fail. What was
not blocked then blocks in either case. A batch may be accepted by which its table stops: then the load that resumes it
is accepted likewise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    """A table that was blocked at a batch, or a `load`, that ends at version `upto` of `epoch`. `failed`: the rows that
    failed, by check."""

    epoch: int
    upto: int
    failed: Mapping[str, int]
    load: bool = False

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(self.failed)

    def covers(self, changes: VersionRange, results: Sequence[ExpectationResult], *, load: bool) -> bool:
        """Whether who accepts this block accepts that these results block a batch with these changes; or a load that
        ends with them, whose table is at their beginning."""
        if self.load and not load:
            return False
        if not self.load and (changes.epoch, changes.after or 0) >= (self.epoch, self.upto):
            return False
        known = all(one.name in self.failed for one in results)
        if not load:
            return known
        return known and changes.epoch == self.epoch and all(one.bad <= self.failed[one.name] for one in results)


@dataclass(frozen=True, slots=True)
class Acceptances:
    """The notes of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    def blocked(
        self, table: str, changes: VersionRange, results: Sequence[ExpectationResult], *, load: bool = False
    ) -> None:
        """Notes that the table does not take these changes, because of these results. Raises LakeError."""
        note = Blocked(changes.epoch, changes.upto, {one.name: one.bad for one in results}, load)
        if self._notes(_BLOCKED).get(table) != json.loads(json.dumps(asdict(note))):
            self._noted.write({_BLOCKED + table: json.dumps(asdict(note))})

    def reason(
        self, table: str, changes: VersionRange, results: Sequence[ExpectationResult], *, load: bool = False
    ) -> str:
        """Returns the reason for which a person accepted that these results block these changes, or "". Raises
        LakeError."""
        note = self._notes(_ACCEPTED).get(table)
        if note is None or not Blocked(**note["block"]).covers(changes, results, load=load):
            return ""
        return str(note["reason"])

    def accept(self, table: str, reason: str) -> Blocked:
        """Notes that a person takes the batch at which the table is blocked, and returns the block. Raises ConfigError
        for a table that is not blocked, LakeError."""
        fields = self._notes(_BLOCKED).get(table)
        if fields is None:
            hint = "Name a table whose stop says which expectation its rows fail (sluice status)."
            raise ConfigError(f"{table} is not blocked by an expectation", place=table, hint=hint)
        note = {"block": fields, "reason": reason}
        self._noted.write({_BLOCKED + table: "", _ACCEPTED + table: json.dumps(note)})
        return Blocked(**fields)

    def end(self, table: str) -> None:
        """Ends what a person accepted of the table, and what blocked it. Raises LakeError."""
        found = [prefix + table for prefix in (_ACCEPTED, _BLOCKED) if table in self._notes(prefix)]
        if found:
            self._noted.write(dict.fromkeys(found, ""))

    @property
    def _noted(self) -> Noted:
        return Noted(self.lake, self.lake.parking_path(self.destination, self.client_id))

    def _notes(self, prefix: str) -> dict[str, Any]:
        return {table: json.loads(text) for table, text in self._noted.read(prefix).items()}
