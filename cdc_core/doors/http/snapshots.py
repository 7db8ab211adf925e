"""The `/v1` calls of a snapshot's reader: open, renew with its progress, break off, close."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from cdc_core.contract.snapshot import Progress
from cdc_core.doors.http import answers, requests
from cdc_core.doors.http.paths import SNAPSHOT, ClientId, Table
from cdc_core.position import EntryPosition
from cdc_core.server.server import CanalServer


def add_snapshots(router: APIRouter, server: CanalServer) -> None:
    @router.put(SNAPSHOT, response_model=answers.SnapshotAnswer)
    def open_snapshot(destination: str, client_id: ClientId, table: Table, body: requests.OpenSnapshotRequest) -> Any:
        """Opens a snapshot of a table, or takes over one whose owner is gone."""
        service = server.destination(destination).service()
        return service.open_snapshot(client_id, table, body.owner, body.lease_seconds, first=body.first).to_dict()

    @router.patch(SNAPSHOT, response_model=answers.SnapshotAnswer)
    def note_snapshot(destination: str, client_id: ClientId, table: Table, body: requests.NoteSnapshotRequest) -> Any:
        """Renews the owner's lease from now on, and keeps the progress where there is some."""
        service, progress = server.destination(destination).service(), _progress(body.progress)
        found = service.note_snapshot(client_id, table, body.id, body.owner, body.lease_seconds, progress)
        return found.to_dict()

    @router.post(SNAPSHOT, status_code=204)
    def break_snapshot(
        destination: str, client_id: ClientId, table: Table, body: requests.BreakSnapshotRequest
    ) -> None:
        """Notes why a snapshot cannot be finished: its reader starts again."""
        server.destination(destination).service().break_snapshot(client_id, table, body.id, body.reason)

    @router.delete(SNAPSHOT, status_code=204)
    def close_snapshot(
        destination: str, client_id: ClientId, table: Table, body: requests.CloseSnapshotRequest | None = None
    ) -> None:
        """Ends a snapshot: by its owner when it is in the lake; without an owner it is cancelled."""
        snapshot_id, owner = (body.id, body.owner) if body else (None, None)
        server.destination(destination).service().close_snapshot(client_id, table, snapshot_id, owner)


def _progress(body: requests.SnapshotProgress | None) -> Progress | None:
    if body is None:
        return None
    low, high = (EntryPosition.from_dict(one.model_dump()) if one else None for one in (body.low, body.high))
    return Progress(low, high, body.definition, body.groups, body.of_groups, body.behind)
