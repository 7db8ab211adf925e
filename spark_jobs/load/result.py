"""For whom a table is copied, and what became of it: plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cdc_core.errors import LakeError, SourceChanged
from cdc_core.schema.table import TableSchema
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
        """The app id of a table's commits."""
        return app_id(self.destination, self.client_id, table, self.epoch)

    def note(self, table: str, place: SnapshotPlace, rows: int, snapshot: str = "") -> str:
        """Delta's user metadata of a copy's commit, as JSON. `snapshot`: the id of the one that it is of."""
        owner = {"destination": self.destination, "client_id": self.client_id, "epoch": self.epoch, "table": table}
        copy = {"rows": rows, "low": str(place.low), "high": str(place.high)}
        copy |= {"snapshot": snapshot} if snapshot else {}
        return json.dumps({**owner, "run_id": self.run_id, "version": place.low.version(), "copy": copy})


class WentOn(LakeError):
    """Somebody wrote the table while it was copied, so nothing was replaced. Another try helps."""

    def __init__(self, path: str) -> None:
        hint = "A run wrote the table meanwhile. Nothing was replaced; copy the table again."
        super().__init__("the table changed while it was copied", place=path, hint=hint)


class Broken(SourceChanged):
    """What was read of a table is no longer of use. Another snapshot from the beginning helps."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A table reloaded. It has every row up to `place.low`, and none behind `place.high`."""

    schema: TableSchema
    place: SnapshotPlace
    rows: int
    delta_version: int

    @property
    def table(self) -> str:
        return self.schema.name


@dataclass(frozen=True, slots=True)
class NoSuchTable:
    """The source has no such table at that place. Nothing was written."""

    database: str
    table: str
    place: SnapshotPlace
