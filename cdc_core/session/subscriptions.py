"""Which clients a destination has: subscribed by configuration, by a call, or from before; and which of them it drops.

A configured client is always subscribed. Another one is subscribed by a call and stays so over restarts, until a call
ends it, or until it holds a full ring back, without an ack, for longer than `patience`: so the configured clients
always get their rows. The cursor of a dropped client is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from cdc_core.contract.reached import Reached
from cdc_core.errors import SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.epoch import Epoch
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.session import Session
from cdc_core.store.store import Store

DEFAULT_CLIENT = 1001  # Canal's own

Keep = Callable[[int, EntryPosition], tuple[Epoch, Reached]]


class Subscriptions:
    """`configured` are client ids, `patience` is in seconds. `keep` writes a client's first cursor; `writing` surrounds
    every write. `held_back` has, for each client at which a full ring waits, the time since when."""

    def __init__(
        self,
        store: Store,
        session: Session,
        cursors: Cursors,
        keep: Keep,
        writing: Callable[[], AbstractContextManager[None]],
        configured: Collection[int] = (DEFAULT_CLIENT,),
        patience: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.configured = frozenset(configured)
        self.held_back: dict[int, float] = {}
        self._acks: dict[int, int] = {}  # of those in `held_back`: the sequence that they have acked
        self._store, self._session, self._cursors = store, session, cursors
        self._keep, self._writing, self._patience, self._clock = keep, writing, patience, clock

    def kept_cursors(self) -> dict[int, LogPosition | None]:
        """The cursors of all subscribed clients, and of those that are configured."""
        return {client: self._cursors.read(client) for client in sorted({*self._cursors.clients(), *self.configured})}

    def subscribe(self, client_id: int) -> None:
        """Adds a new client at the newest transaction; a subscribed one stays as it is. Raises SessionError for one
        that was dropped, and has a cursor that the ring does not reach any more."""
        with self._store.changed:
            if client_id in self._session.clients:
                return
            start = self._session.newest()
        place = f"{self._cursors.destination}, client {client_id}"
        if start is None:
            raise SessionError(
                "no transaction was read yet: a new client has no place to start",
                place=place,
                hint="Subscribe again when the destination has read its first transaction.",
            )
        if (kept := self._cursors.read(client_id)) is not None:
            raise SessionError(
                f"the client was dropped, because it held the full store back; its cursor is {kept.postion}",
                place=place,
                hint="To go on from there: sluice reset "
                f"{self._cursors.destination} --client-id {client_id} --position {kept.postion} --yes. "
                "To begin at the newest rows: unsubscribe it, then subscribe it again.",
            )
        self._add(client_id)

    def _add(self, client_id: int) -> None:
        with self._store.changed:
            start = self._session.newest()
            if client_id in self._session.clients or start is None:
                return
            self._session.subscribe(client_id, start, Epoch(), wait=False)
            self._session.client(client_id).busy = True
        try:
            epoch, reached = self._keep(client_id, start)
        except BaseException:
            with self._store.changed:
                self._session.unsubscribe(client_id)
                self._store.changed.notify_all()
            raise
        with self._store.changed:
            state = self._session.client(client_id)
            state.epoch, state.reached, state.busy = epoch, reached, False
            self._store.changed.notify_all()

    def unsubscribe(self, client_id: int) -> None:
        """Ends a subscription and forgets the cursor; its claims are void. Raises SessionError for a configured
        client."""
        if client_id in self.configured:
            raise SessionError(
                f"client {client_id} is configured, so it stays subscribed",
                place=self._cursors.destination,
                hint="Take it out of sluice.clients of the destination first.",
            )
        self._remove(client_id, keep_cursor=False)

    def _remove(self, client_id: int, *, keep_cursor: bool) -> None:
        with self._writing():
            with self._store.changed:
                subscribed = client_id in self._session.clients
            if not subscribed and client_id not in self._cursors.known():
                return
            self._cursors.unsubscribe(client_id, keep_cursor=keep_cursor)
            with self._store.changed:
                self._session.unsubscribe(client_id)
                self.held_back.pop(client_id, None)
                self._store.changed.notify_all()

    def drop_idle(self) -> dict[int, float]:
        """Looks who holds a full ring back, and drops clients that are not configured and do so for too long. Those
        dropped, with the seconds."""
        now = self._clock()
        self._look(now)
        waited = {client: now - since for client, since in self.held_back.items() if client not in self.configured}
        late = {client: seconds for client, seconds in waited.items() if seconds >= self._patience}
        for client in late:
            self._remove(client, keep_cursor=True)
        return late

    def _look(self, now: float) -> None:
        """The wait of a client that acked something since the last look starts again. So does that of one that is not
        configured and not alone: it keeps nobody waiting yet."""
        ring = self._store.ring
        with self._store.changed:
            acks = {client: marks.ack.sequence for client, marks in ring.clients.items()} if ring.full else {}
            least = min(acks.values(), default=0)
            slowest = {client: ack for client, ack in acks.items() if ack == least}
            waits = not self.configured & slowest.keys()
            counts = slowest.keys() if waits else self.configured & slowest.keys()
            same = {one for one in counts if self._acks.get(one) == slowest[one]}
            self.held_back = {one: self.held_back.get(one, now) if one in same else now for one in slowest}
            self._acks = slowest
