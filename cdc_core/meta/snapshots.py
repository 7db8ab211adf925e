"""The snapshots of tables that a client has open, kept with its cursor until they are in the lake or cancelled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cdc_core.contract.snapshot import Snapshot
from cdc_core.meta.nodes import Change, Nodes
from cdc_core.meta.table_states import TableStates, placed


class Snapshots(TableStates):
    """The open snapshots of each client."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        super().__init__(nodes, destination, "open_snapshots", "snapshots", Snapshot.from_dict)

    def of(self, client_id: int) -> list[Snapshot]:
        return [Snapshot.from_dict(fields) for fields in self._states(client_id).values()]

    def write(self, client_id: int, snapshot: Snapshot, also: Mapping[str, Change] | None = None) -> None:
        """`also`: other changes of the same write."""
        self._nodes.write(self.changes(client_id, [snapshot]) | dict(also or {}))

    def remove(self, client_id: int, table: str) -> None:
        """Without a snapshot it only checks whether the caller may write."""
        self._nodes.write(self._state_changes(client_id, {table: None}))

    def changes(self, client_id: int, snapshots: Iterable[Snapshot]) -> dict[str, Change]:
        """What writes these, for a write of several nodes."""
        return self._state_changes(client_id, {one.table: _kept(one) for one in snapshots})

    def broken(self, client_id: int, reason: str, tables: Collection[str] | None = None) -> dict[str, Change]:
        """What breaks those of `tables` that are open, or all, for a write of several nodes."""
        opened = (one for one in self.of(client_id) if tables is None or one.table in tables)
        return self.changes(client_id, [one.broken_by(reason) for one in opened])


def _kept(snapshot: Snapshot) -> dict[str, Any]:
    progress = snapshot.progress
    places = {"low": placed(progress.low), "high": placed(progress.high), "acked": placed(snapshot.acked)}
    return snapshot.to_dict() | places
