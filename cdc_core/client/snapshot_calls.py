"""The calls of a snapshot's reader, for one client of one destination."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from cdc_core.client.calls import Calls
from cdc_core.contract.snapshot import Progress, Snapshot

LEASE_SECONDS = 60.0


class SnapshotCalls:
    """`home` is the client's path. Without state. Every call may be made again."""

    def __init__(self, calls: Calls, home: str) -> None:
        self._calls, self._home = calls, home

    def open(self, table: str, *, owner: str, first: bool = False, lease_seconds: float = LEASE_SECONDS) -> Snapshot:
        """The table's snapshot, which is the owner's from now on: a new one, or one whose owner is gone, to be gone on
        with. `first`: the lake has no such table, which is stopped until the snapshot is in the lake.

        Raises SessionError while another owner reads the table.
        """
        body = {"owner": owner, "first": first, "lease_seconds": lease_seconds}
        return Snapshot.from_dict(self._call("PUT", table, body))

    def renew(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it is now, its lease renewed. Raises SessionError when it was cancelled, or is another
        owner's."""
        return self.note(snapshot, None)

    def note(self, snapshot: Snapshot, progress: Progress | None) -> Snapshot:
        """The same; the progress is kept when this returns. One that was `broken` meanwhile is returned as such."""
        body = {
            "id": snapshot.id,
            "owner": snapshot.owner,
            "lease_seconds": snapshot.lease_seconds,
            "progress": progress.to_dict() if progress else None,
        }
        return Snapshot.from_dict(self._call("PATCH", snapshot.table, body))

    def break_off(self, table: str, snapshot_id: str, reason: str) -> None:
        """Notes why a snapshot cannot be finished: its reader starts again. One that is gone stays gone."""
        self._call("POST", table, {"id": snapshot_id, "reason": reason[:2000]})

    def close(self, snapshot: Snapshot) -> None:
        """Ends one that is in the lake. Raises SessionError when it is another owner's."""
        self._call("DELETE", snapshot.table, {"id": snapshot.id, "owner": snapshot.owner})

    def cancel(self, table: str) -> None:
        """Ends the table's snapshot, whoever reads it. The lake's table stays as it is."""
        self._call("DELETE", table, {})

    def _call(self, method: str, table: str, body: dict[str, Any]) -> Any:
        return self._calls.call(method, f"{self._home}/snapshots/{quote(table, safe='')}", body)
