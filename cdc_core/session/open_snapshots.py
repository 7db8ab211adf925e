"""The open snapshots of a destination's clients: who reads which table, how far it is, and what breaks it.

A claim names the snapshots that were open when it was handed out; its owner keeps the changes of those tables beside
the lake (docs/exactly-once.md). The ack of such changes is noted in the same write as the cursor, so that a copy from
which some are missing is seen. A DDL statement on the table breaks its snapshot in that write too.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from cdc_core.contract.claim import is_redefined
from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import SessionError
from cdc_core.meta.nodes import Change
from cdc_core.meta.snapshots import Snapshots
from cdc_core.position import EntryPosition
from cdc_core.session.session import Session
from cdc_core.session.state import PendingAck
from cdc_core.session.stops import Stops

_DDL = "the table's definition changed while it was read"


class OpenSnapshots:
    """`of` has each client's snapshots by table. `writing` surrounds each write of a node, and every ack. `clock` is in
    seconds since the epoch."""

    def __init__(
        self,
        kept: Snapshots,
        stops: Stops,
        session: Session,
        writing: Callable[[], AbstractContextManager[None]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.of: dict[int, dict[str, Snapshot]] = {}
        self._kept, self._stops, self._session, self._writing, self._clock = kept, stops, session, writing, clock

    def load(self, client_id: int) -> None:
        """Leases start again, because the time while no service ran does not count."""
        self.of[client_id] = {one.table: self._leased(one) for one in self._kept.of(client_id)}

    def names(self, client_id: int, end: EntryPosition | None = None) -> tuple[tuple[str, str], ...]:
        """Table and id of those that are not broken; with an `end`, without those that begin after it."""
        found = (one for one in self.of.get(client_id, {}).values() if not one.broken)
        return tuple(sorted((one.table, one.id) for one in found if end is None or not one.is_after(end)))

    def open(self, client_id: int, table: str, owner: str, lease_seconds: float, *, first: bool) -> Snapshot:
        """The table's snapshot, which is the owner's from now on: a new one, or one that is there and not broken and
        whose owner is gone. `first`: the lake has no such table; it is stopped until the snapshot is in the lake.

        Raises SessionError while another owner reads the table.
        """
        epoch = self._session.client(client_id).epoch.number
        with self._writing():
            there = self.of[client_id].get(table)
            if there is not None and there.owner != owner and there.lease_deadline > self._clock():
                raise SessionError(
                    f"{there.owner} reads {table} already",
                    place=self._place(client_id, table),
                    hint="Wait until it is done, or cancel it: "
                    f"sluice snapshot {self._kept.destination} {table} --cancel.",
                )
            if there is not None and not there.broken and there.epoch == epoch:
                found = replace(there, owner=owner, lease_seconds=lease_seconds)
            else:
                found = Snapshot(table, uuid.uuid4().hex[:16], owner, lease_seconds, 0.0, epoch)
            stop = self._first_stop(client_id, table) if first else None
            also = self._stops.changes(client_id, [stop]) if stop else {}
            found = self._write(client_id, found, also)
            self._stops.note(client_id, [stop] if stop else [])
            return found

    def note(
        self, client_id: int, table: str, snapshot_id: str, owner: str, lease_seconds: float, progress: Progress | None
    ) -> Snapshot:
        """Renews the owner's lease, and keeps the progress where there is some. Raises SessionError when the snapshot
        is not the owner's any more."""
        with self._writing():
            known = replace(self._owned(client_id, table, snapshot_id, owner), lease_seconds=lease_seconds)
            if progress is None:
                return self._keep(client_id, self._leased(known))
            return self._write(client_id, replace(known, progress=progress))

    def break_off(self, client_id: int, table: str, snapshot_id: str, reason: str) -> None:
        """The snapshot cannot be finished: claims name it no more. One that is gone stays gone."""
        with self._writing():
            there = self.of[client_id].get(table)
            if there is not None and there.id == snapshot_id and not there.broken:
                broken = there.broken_by(reason)
                self._kept.write(client_id, broken)
                self._keep(client_id, broken)

    def close(self, client_id: int, table: str, snapshot_id: str | None, owner: str | None) -> None:
        """Ends it: by its owner when it is in the lake; without an id and an owner by anybody, who cancels it. One that
        is gone stays gone. Raises SessionError when it is another owner's."""
        with self._writing():
            there = self.of.get(client_id, {}).get(table)
            if there is None or (snapshot_id is not None and there.id != snapshot_id):
                return
            if owner is not None:
                self._owned(client_id, table, there.id, owner)
            self._kept.remove(client_id, table)
            self.of[client_id] = {name: one for name, one in self.of[client_id].items() if name != table}

    def passed_by(self, pending: PendingAck) -> list[Snapshot]:
        """The client's open snapshots of whose tables the batch has changes, as they are after its ack."""
        known, found = self.of.get(pending.client_id, {}), []
        for table, one in known.items():
            if one.is_after(pending.end):
                continue
            if is_redefined(table, pending.redefined):
                found.append(one.after(pending.end).broken_by(_DDL))
            elif table in pending.tables:
                found.append(one.after(pending.end))
        return found

    def note_acked(self, client_id: int, snapshots: Sequence[Snapshot]) -> None:
        """Takes in what was written with an ack."""
        for one in snapshots:
            self._keep(client_id, one)

    def _owned(self, client_id: int, table: str, snapshot_id: str, owner: str) -> Snapshot:
        self._session.client(client_id)
        there = self.of[client_id].get(table)
        if there is None or there.id != snapshot_id or there.owner != owner:
            whose = "was cancelled" if there is None or there.id != snapshot_id else f"belongs to {there.owner} now"
            raise SessionError(
                f"the snapshot of {table} {whose}",
                place=self._place(client_id, table),
                hint="Nothing of the table in the lake was changed. Begin another snapshot if it is still wanted.",
            )
        return there

    def _first_stop(self, client_id: int, table: str) -> StoppedTable | None:
        """None for a table that is stopped already."""
        if table in self._stops.of.get(client_id, {}):
            return None
        resume = f"sluice snapshot {self._kept.destination} {table}"
        hint = f"Wait until it is done; an interrupted one continues with: {resume}."
        cursor = self._session.client(client_id).cursor
        return StoppedTable(table, "its first snapshot is not in the lake yet", hint, cursor)

    def _leased(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, lease_deadline=self._clock() + snapshot.lease_seconds)

    def _write(self, client_id: int, snapshot: Snapshot, also: Mapping[str, Change] | None = None) -> Snapshot:
        leased = self._leased(snapshot)
        self._kept.write(client_id, leased, also)
        return self._keep(client_id, leased)

    def _keep(self, client_id: int, snapshot: Snapshot) -> Snapshot:
        self.of[client_id] = self.of[client_id] | {snapshot.table: snapshot}
        return snapshot

    def _place(self, client_id: int, table: str) -> str:
        return f"{self._kept.destination}/{client_id}, {table}"
