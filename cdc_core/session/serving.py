"""What clients ask of one destination: the session, with the waiting around it and the cursors kept elsewhere.

An ack returns after its cursor is written; when it cannot be written the claim stays outstanding and may be acked
again. All I/O happens outside the store's lock. Nothing here reads the source.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cdc_core.errors import RangeGone, SessionError
from cdc_core.meta.cursors import Cursors, Epoch
from cdc_core.meta.stopped import StoppedTable
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.claim import Claim
from cdc_core.session.session import ClientState, Session, Step
from cdc_core.source.block import BlockSlice
from cdc_core.store.store import Store

DEFAULT_CLIENT = 1001  # Canal's own


class Serving:
    """`source` is the server's address as configured: what a cursor says it belongs to. `server_uuid` is known when it
    has connected. `clock` is in epoch seconds."""

    def __init__(
        self,
        store: Store,
        session: Session,
        cursors: Cursors,
        source: LogPosition,
        filter_text: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.session = session
        self.acked: dict[int, EntryPosition | None] = {}
        self.stopped: dict[int, dict[str, StoppedTable]] = {}
        self.server_uuid = ""
        self._store = store
        self._cursors = cursors
        self._source = source
        self._filter_text = filter_text
        self._clock = clock
        self._writing = threading.Lock()  # of cursors; never waited for under the store's lock
        self._closed = False

    # -- clients

    def kept_cursors(self) -> dict[int, LogPosition | None]:
        """The known clients with their cursors, the default client among them."""
        known = sorted({*self._cursors.clients(), DEFAULT_CLIENT})
        return {client: self._cursors.read(client) for client in known}

    def kept_source(self, client_id: int, cursor: LogPosition) -> str:
        """The uuid of the server that a kept cursor is of; empty where that is not known."""
        return self._cursors.source(client_id, cursor)

    def move(self, clients: Iterable[int], place: EntryPosition, seamless: Collection[int]) -> None:
        """Their cursors were another server's: a new epoch begins for each at this one's `place`, all at once."""
        with self._open():
            self._cursors.move(clients, self._source.at(place), self.server_uuid, seamless)

    def restore(self, client_id: int, cursor: EntryPosition) -> None:
        """Subscribes a client whose events are yet to come, and keeps where it starts; anew, when it was before."""
        epoch = self._keep(client_id, cursor)
        with self._store.changed:
            self.session.unsubscribe(client_id)
            self.session.subscribe(client_id, cursor, epoch.number)
            _begin(self.session.client(client_id), epoch)

    def subscribe(self, client_id: int) -> None:
        """A new client, from the newest transaction on; an old one as it is."""
        with self._store.changed:
            if client_id in self.session.clients:
                return
            start = self.session.newest()
            if start is None:
                raise SessionError("no transaction was read yet", hint="Subscribe again later.")
            self.session.subscribe(client_id, start, 0, wait=False)
            self.session.client(client_id).busy = True
        try:
            epoch = self._keep(client_id, start)
        except BaseException:
            with self._store.changed:
                self.session.unsubscribe(client_id)
            raise
        with self._store.changed:
            state = self.session.client(client_id)
            _begin(state, epoch)
            state.busy = False

    def _keep(self, client_id: int, cursor: EntryPosition) -> Epoch:
        with self._open():
            self._cursors.subscribe(client_id, self._filter_text)
            self._cursors.write(client_id, self._source.at(cursor), source=self.server_uuid)
        self.acked[client_id] = self._cursors.acked(client_id)
        self.stopped[client_id] = {stopped.table: stopped for stopped in self._cursors.stopped.of(client_id)}
        return self._cursors.present(client_id)

    def close(self) -> None:
        """No cursor is written any more when this returns: it may be set by hand now."""
        with self._writing:
            self._closed = True

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Around the writing of a cursor. Raises RangeGone after `close`."""
        with self._writing:
            if self._closed:
                raise RangeGone("the destination was stopped", place=self._cursors.destination, hint="Claim again.")
            yield

    # -- claim, ack, rollback

    def claim(self, client_id: int, max_rows: int, timeout: float, owner: str, lease_seconds: float) -> Claim | None:
        """Waits up to `timeout` for rows; looks again whenever something changes or a lease runs out."""
        self.subscribe(client_id)
        return self._store.wait_for(
            lambda: self.session.claim(client_id, max_rows, owner, lease_seconds, self._clock()),
            timeout,
            lambda: self._until_expiry(client_id),
        )

    def _until_expiry(self, client_id: int) -> float | None:
        deadline = self.session.next_deadline(client_id)
        return None if deadline is None else deadline - self._clock()

    def ack(self, client_id: int, batch_id: int, owner: str) -> EntryPosition | None:
        """The cursor after it. An ack that was done already, by the same owner, changes nothing."""
        with self._store.changed:
            self._await_idle(client_id)
            if self.session.already_acked(client_id, batch_id, owner):
                return self.session.client(client_id).cursor
            step = self.session.begin_ack(client_id, batch_id, owner)
        return self._complete(step)

    def _complete(self, step: Step) -> EntryPosition | None:
        """Writes what the step moves, then moves the ring; or neither."""
        cursor = None if step.cursor is None else self._source.at(step.cursor)
        acked = None if step.batch_id is None else step.end
        try:
            with self._open():
                self._cursors.write(step.client_id, cursor, acked)
        except BaseException:
            with self._store.changed:
                self.session.abandon(step)
                self._store.changed.notify_all()
            raise
        with self._store.changed:
            before = self.acked.get(step.client_id)
            self.acked[step.client_id] = acked if before is None or (acked and acked > before) else before
            moved = self.session.finish(step)
            self._store.changed.notify_all()
            return moved

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float) -> float:
        with self._store.changed:
            return self.session.renew(client_id, batch_id, owner, lease_seconds, self._clock())

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None) -> list[int]:
        with self._store.changed:
            self._await_idle(client_id)
            given = self.session.rollback(client_id, batch_id, owner)
            self._store.changed.notify_all()
            return given

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice]:
        with self._store.changed:
            found = self.session.slices(client_id, batch_id)
        if found is None:
            raise RangeGone(
                f"batch {batch_id} is not outstanding: it was acked, given back, or lost with a restart",
                place=f"{self._cursors.destination}, client {client_id}",
                hint="Claim again: what was not acked is given out anew.",
            )
        return found

    def tidy(self) -> dict[int, list[int]]:
        """Gives back claims whose lease ran out, and moves cursors over what has no rows. Batches given back."""
        expired = {}
        for client_id in list(self.session.clients):
            with self._store.changed:
                if given := self.session.expire(client_id, self._clock()):
                    expired[client_id] = given
                    self._store.changed.notify_all()
                step = self.session.begin_skip(client_id)
            if step is not None:
                self._complete(step)
        return expired

    def _await_idle(self, client_id: int) -> None:
        """Waits, holding the lock but while waiting, for an ack of the same client to end."""
        self._store.changed.wait_for(lambda: not self.session.client(client_id).busy)

    # -- stopped tables

    def stop_table(self, client_id: int, stopped: StoppedTable) -> None:
        self.session.client(client_id)
        self._cursors.stopped.stop(client_id, stopped)
        self.stopped[client_id] = self.stopped[client_id] | {stopped.table: stopped}

    def resume_table(self, client_id: int, table: str) -> None:
        self.session.client(client_id)
        self._cursors.stopped.resume(client_id, table)
        self.stopped[client_id] = {name: s for name, s in self.stopped[client_id].items() if name != table}

    # -- looking

    def client(self, client_id: int) -> dict[str, Any]:
        with self._store.changed:
            state, marks, put = self.session.client(client_id), self._store.ring.marks(client_id), self._store.ring.put
            acked = self.acked.get(client_id)
            return {
                "client_id": client_id,
                "cursor": state.cursor.to_dict() if state.cursor else None,
                "acked": acked.to_dict() if acked else None,
                "epoch": state.epoch,
                "backlog_rows": put.rows - marks.ack.rows,
                "backlog_bytes": put.nbytes - marks.ack.nbytes,
                "put": put.sequence,
                "get": marks.get.sequence,
                "ack": marks.ack.sequence,
                "claims": [_told(batch.claim) for batch in state.batches],
                "stopped": [stopped.to_dict() for _, stopped in sorted(self.stopped.get(client_id, {}).items())],
                "rollbacks": state.rollbacks,
            }


def _begin(state: ClientState, epoch: Epoch) -> None:
    state.epoch, state.moved, state.seamless = epoch.number, epoch.moved, dict(epoch.seamless)


def _told(claim: Claim) -> dict[str, Any]:
    return {
        "batch_id": claim.batch_id,
        "owner": claim.owner,
        "lease_deadline": claim.lease_deadline,
        "start": claim.start.to_dict(),
        "end": claim.end.to_dict(),
        "rows": claim.rows,
    }
