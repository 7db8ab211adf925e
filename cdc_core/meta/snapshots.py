"""The snapshots of tables that a client has open, kept beside its cursor until they are in the lake or cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from cdc_core.meta.client_nodes import ClientNodes
from cdc_core.meta.nodes import Change
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

    `owner` reads the table; without a word of the owner before `lease_deadline` (in seconds since the epoch) another
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


class Snapshots(ClientNodes):
    """The nodes `snapshots/{table}` of each client."""

    def of(self, client_id: int) -> list[Snapshot]:
        root = self._path(client_id, "snapshots")
        paths = [f"{root}/{name}" for name in self._nodes.children(root)]
        found = (self._parsed(path, self._nodes.read(path), _snapshot, "a snapshot") for path in paths)
        return [one for one in found if one is not None]

    def write(self, client_id: int, snapshot: Snapshot, also: Mapping[str, Change] | None = None) -> None:
        """`also`: other changes of the same write."""
        self._nodes.write(self.changes(client_id, [snapshot]) | dict(also or {}))

    def remove(self, client_id: int, table: str) -> None:
        """Without a node it only checks whether the caller may write."""
        self._nodes.write(self._changes(client_id, {_name(table): None}))

    def changes(self, client_id: int, snapshots: Iterable[Snapshot]) -> dict[str, Change]:
        """What writes these, for a write of several nodes."""
        values = {_name(one.table): json.dumps(one.to_dict()).encode() for one in snapshots}
        return self._changes(client_id, values)

    def broken(self, client_id: int, reason: str) -> dict[str, Change]:
        """What breaks all that are open, for a write of several nodes."""
        return self.changes(client_id, [one.broken_by(reason) for one in self.of(client_id)])


def _name(table: str) -> str:
    return f"snapshots/{quote(table, safe='')}"


def _snapshot(text: bytes) -> Snapshot:
    return Snapshot.from_dict(json.loads(text))
