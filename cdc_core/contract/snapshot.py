"""A table that is read while the stream goes on, and how far its reading is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_core.position import EntryPosition

FIRST_START = "the first start"  # the owner of a first snapshot that no run has taken yet


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of a table is. It has every transaction up to `low`, and none behind `high`; None while these
    are not known. `definition` is the version of the table's definition. `groups` are the groups of chunks that are
    staged, of about `of_groups` (None: unknown); `behind` is the reader's own note of where the next one begins."""

    low: EntryPosition | None = None
    high: EntryPosition | None = None
    definition: str = ""
    groups: int = 0
    of_groups: int | None = None
    behind: str = ""

    def to_dict(self) -> dict[str, Any]:
        places = {"low": self.low.to_dict() if self.low else None, "high": self.high.to_dict() if self.high else None}
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | places

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Progress:
        """Fields that are unknown here are ignored."""
        places = {name: EntryPosition.from_dict(fields[name]) if fields.get(name) else None for name in ("low", "high")}
        return cls(**{name: value for name, value in fields.items() if name in cls.__dataclass_fields__} | places)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table that is read while the stream goes on. Claims that are handed out while it is open name it.

    `owner` reads the table; without a renewal by the owner before `lease_deadline` (in seconds since the epoch) another
    may take it over and go on. `epoch` is the client's. `acked` is the end of the last acked batch with changes of the
    table, None when there was none. `broken` says why the snapshot cannot be finished, "" for one that can.
    """

    table: str
    id: str
    owner: str
    lease_seconds: float
    lease_deadline: float
    epoch: int
    progress: Progress = Progress()
    acked: EntryPosition | None = None
    broken: str = ""

    def broken_by(self, reason: str) -> Snapshot:
        """The first reason stays."""
        return self if self.broken else replace(self, broken=reason)

    def is_after(self, end: EntryPosition) -> bool:
        """Whether all its rows were read when the table had every change and statement up to `end`."""
        return self.progress.low is not None and end <= self.progress.low

    def after(self, acked: EntryPosition) -> Snapshot:
        """The same after an ack of changes of the table."""
        return self if self.acked and self.acked > acked else replace(self, acked=acked)

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "progress"}
        return plain | self.progress.to_dict() | {"acked": self.acked.to_dict() if self.acked else None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Snapshot:
        """Fields that are unknown here are ignored."""
        own = {name: value for name, value in fields.items() if name in cls.__dataclass_fields__}
        acked = EntryPosition.from_dict(fields["acked"]) if fields.get("acked") else None
        return cls(**own | {"progress": Progress.from_dict(fields), "acked": acked})
