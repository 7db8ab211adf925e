"""The client of a load, and its outcome: plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cdc_core.errors import LakeError, SourceChanged
from cdc_core.schema.table import TableSchema
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.lake.record import CopyNote
from spark_jobs.lake.state import app_id
from spark_jobs.snapshot.place import SnapshotPlace


@dataclass(frozen=True, slots=True)
class LakeClient:
    """The client whose tables the lake has, in its present epoch."""

    destination: str
    client_id: int
    epoch: int
    run_id: str = ""

    def app(self, table: str) -> str:
        """Returns the app id of a table's commits."""
        return app_id(self.destination, self.client_id, table, self.epoch)

    def note(
        self, table: str, place: SnapshotPlace, rows: int, snapshot: str = "", copied: CopyNote | None = None
    ) -> str:
        """Returns Delta's user metadata of a copy's commit, as JSON. `snapshot`: the id of its snapshot. `copied`: what
        the table's properties will say of it, which may come in another commit."""
        owner = {"destination": self.destination, "client_id": self.client_id, "epoch": self.epoch, "table": table}
        copy = {"rows": rows, "low": str(place.low), "high": str(place.high)}
        copy |= {"snapshot": snapshot} if snapshot else {}
        copy |= {"has": copied.low, "may_have": copied.high} if copied else {}
        return json.dumps({**owner, "run_id": self.run_id, "version": place.low.version(), "copy": copy})


class WentOn(LakeError):
    """Another run wrote the table while it was copied, so nothing was replaced. Another try helps."""

    def __init__(self, path: str) -> None:
        hint = "A run wrote the table meanwhile. Nothing was replaced; copy the table again."
        super().__init__("the table changed while it was copied", place=path, hint=hint)


class Broken(SourceChanged):
    """The rows that were read of a table are no longer of use. Another snapshot from the beginning helps."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A reloaded table. It has every row up to `place.low`, and no row after `place.high`. `exact`: the epoch and the
    version from which on it has all rows and no later one, as long as no change follows; None if that is not known.
    `expected`: the results of what is expected of its columns."""

    schema: TableSchema
    place: SnapshotPlace
    rows: int
    delta_version: int
    exact: tuple[int, int] | None = None
    expected: tuple[ExpectationResult, ...] = ()

    @property
    def table(self) -> str:
        return self.schema.name


@dataclass(frozen=True, slots=True)
class NoSuchTable:
    """The source has no such table at that place. Nothing was written. `kind`: that of the object which has
    its name there, such as VIEW, or ""."""

    database: str
    table: str
    place: SnapshotPlace
    kind: str = ""
