"""The session as its clients use it: with a lock, with waiting, and with cursors that outlive the service.

An ack returns after its cursor is written. When the cursor cannot be written, the claim stays outstanding and may be
acked again. All I/O happens outside the store's lock. Nothing here reads the source but `refilter`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from cdc_core.binlog.block import BlockSlice
from cdc_core.config.models import InstanceConfig
from cdc_core.contract.reached import Reached
from cdc_core.errors import RangeGone
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.epoch import Epoch
from cdc_core.meta.filter_notes import FilterChange
from cdc_core.meta.set_backs import SetBack
from cdc_core.position import EntryPosition, LogPosition, journal_number
from cdc_core.rules.rules import Rules
from cdc_core.schema.ddl import Ddl
from cdc_core.session.claim_times import ClaimTimes
from cdc_core.session.claiming import Claiming, Limits
from cdc_core.session.client_stages import ClientStages
from cdc_core.session.filters import ClientFilters
from cdc_core.session.lake_reports import BlockedTables, QuarantinedRows
from cdc_core.session.lake_rules import LakeRules
from cdc_core.session.open_snapshots import OpenSnapshots
from cdc_core.session.readers import Readers
from cdc_core.session.session import Session
from cdc_core.session.stage_seconds import StageSeconds
from cdc_core.session.state import Dropped, PendingAck
from cdc_core.session.stops import Stops
from cdc_core.session.subscriptions import DEFAULT_CLIENT, Subscriptions
from cdc_core.session.upcoming import Upcoming
from cdc_core.source.settings import SourceSettings
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.store import Store


class DurableSession:
    """`source` is the configured address of the server: cursors name it. `server_uuid` is known once connected.

    `stops` are the clients' stopped tables, `snapshots` the open ones of their tables; `clients` and `patience` are
    those of `subscriptions`. `clock` is in seconds since the epoch. `refilter` gives what a client's start at a place
    changes where another filter was noted; it may read the source. `stages` counts where the time of clients goes.
    """

    def __init__(
        self,
        store: Store,
        session: Session,
        cursors: Cursors,
        source: LogPosition,
        filter_text: str,
        clock: Callable[[], float] = time.time,
        read_ddl: Callable[[Sequence[BlockSlice]], tuple[Ddl, ...]] = lambda _: (),
        *,
        clients: Collection[int] = (DEFAULT_CLIENT,),
        patience: float = 60.0,
        refilter: Callable[[int, EntryPosition], FilterChange | None] = lambda *_: None,
        stages: StageSeconds | None = None,
    ) -> None:
        self.session = session
        self.server_uuid = ""
        self._store = store
        self._cursors = cursors
        self._source = source
        self._filter_text = filter_text
        self._clock = clock
        self._refilter = refilter
        self._writing = threading.Lock()  # of cursors; never waited for under the store's lock
        self._closed = False
        self.claim_times = ClaimTimes()
        self.stages = ClientStages(store.ring, session, stages or StageSeconds())
        store.on_put = self.stages.look
        self.stops = Stops(cursors.stopped, store, session, self._open)
        self.snapshots = OpenSnapshots(cursors.snapshots, self.stops, session, self._open, clock)
        self.filters = ClientFilters(cursors, self._open)
        self.readers = Readers(cursors, self._open)
        self.rules = LakeRules(cursors, self._open)
        self.quarantined = QuarantinedRows(cursors, self._open)
        self.blocked = BlockedTables(cursors, self._open)
        self._claiming = Claiming(
            store, session, self.stops, self.snapshots, self.readers, self.rules, clock, read_ddl, self.rollback,
            self.stages.look,
        )  # fmt: skip
        self.claim = self._claiming.claim
        self.subscriptions = Subscriptions(store, session, cursors, self._keep, self._open, clients, patience, clock)

    @classmethod
    def configured(
        cls,
        config: InstanceConfig,
        settings: SourceSettings,
        store: Store,
        session: Session,
        cursors: Cursors,
        clock: Callable[[], float],
        read_ddl: Callable[[Sequence[BlockSlice]], tuple[Ddl, ...]],
        refilter: Callable[[int, EntryPosition], FilterChange | None],
        stages: StageSeconds,
    ) -> Self:
        """That of a destination that reads the server of `settings`."""
        here = LogPosition(settings.host, settings.port, EntryPosition("start.0", 0))
        clients, patience = config.clients, config.lease_seconds
        return cls(
            store,
            session,
            cursors,
            here,
            config.filter_regex,
            clock,
            read_ddl,
            refilter=refilter,
            clients=clients,
            patience=patience,
            stages=stages,
        )

    # -- clients

    @property
    def identity(self) -> str:
        """The destination's; empty until `identify`."""
        return self._claiming.identity

    def identify(self) -> None:
        """Reads the identity of the destination, or gives it one. Before any cursor is read: a move of them that was
        interrupted is finished."""
        with self._open():
            self._cursors.finish_move()
            self._claiming.identity = self._cursors.identity()

    def kept_source(self, client_id: int, cursor: LogPosition) -> str:
        """The uuid of the server that a kept cursor belongs to; empty when it is not known."""
        return self._cursors.source(client_id, cursor)

    def set_backs(self, clients: Iterable[int]) -> dict[int, SetBack]:
        """What the source was seen to lack, by client."""
        return self._cursors.set_backs.of(clients)

    def note_set_backs(self, notes: Mapping[int, SetBack | None]) -> None:
        """Keeps it over restarts; None forgets it."""
        with self._open():
            self._cursors.set_backs.write(notes)

    def move(self, clients: Iterable[int], place: EntryPosition, seamless: Collection[int]) -> None:
        """Moves cursors of another server to a place of this one. Each client begins a new epoch."""
        with self._open():
            self._cursors.move(clients, self._source.at(place), self.server_uuid, seamless)

    def restore(self, client_id: int, cursor: EntryPosition) -> None:
        """Subscribes a client again at `cursor`, whose next event is yet to come, and keeps that cursor."""
        epoch, reached = self._keep(client_id, cursor)
        with self._store.changed:
            self.session.unsubscribe(client_id)
            self.session.subscribe(client_id, cursor, epoch, reached)

    def _keep(self, client_id: int, cursor: EntryPosition) -> tuple[Epoch, Reached]:
        change, at = self._refilter(client_id, cursor), self._source.at(cursor)
        with self._open():
            reached = self._cursors.begin(client_id, at, self.server_uuid, self._filter_text, change)
        self.filters.load(client_id)
        self.readers.load(client_id)
        self.rules.load(client_id)
        self.quarantined.load(client_id)
        self.blocked.load(client_id)
        self.stops.load(client_id, self._cursors.acked(client_id))
        self.snapshots.load(client_id)
        return self._cursors.epoch(client_id), reached

    def close(self) -> None:
        """Ends the writing of cursors. They may be set by hand when this returns."""
        with self._writing:
            self._closed = True

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Surrounds each write of a cursor. Raises RangeGone after `close`."""
        with self._writing:
            if self._closed:
                raise RangeGone("the destination was stopped", place=self._cursors.destination, hint="Claim again.")
            yield

    # -- claim, ack, rollback

    def await_change(self, seen: int, seconds: float) -> tuple[int, bool]:
        """Returns when more was put than the `seen` events, when something was acked or rolled back, or after so long:
        the events put by now, and whether any of it happened. So a put between two calls is not missed."""
        with self._store.changed:
            happened = self._store.closed or self._store.ring.put.sequence != seen
            happened = happened or self._store.changed.wait(seconds)
            put = self._store.ring.put.sequence
            return put, happened or put != seen

    def batches(self, client_id: int, owner: str) -> list[int]:
        """The client's outstanding batches of this owner, in the order of their claims."""
        with self._store.changed:
            return [one.id for one in self.session.client(client_id).batches if one.claim.owner == owner]

    def ack(self, client_id: int, batch_id: int, owner: str, mended: Collection[str] = ()) -> EntryPosition | None:
        """The client's cursor after it. Repeating the owner's last ack changes nothing.

        `mended`: tables whose stop ends in the same write, because the lake has them as they are at the batch's end.
        Raises SessionError when another claim is out that leaves their rows out.
        """
        with self._store.changed:
            self._await_idle(client_id)
            if self.session.already_acked(client_id, batch_id, owner):
                return self.session.client(client_id).cursor
            self.stops.check_mended(client_id, batch_id, mended)
            pending = replace(self.session.begin_ack(client_id, batch_id, owner), mended=tuple(mended))
            self.stages.look()
        return self._complete(pending)

    def _complete(self, pending: PendingAck) -> EntryPosition | None:
        """Writes the cursor, then moves the ring; or does neither."""
        cursor = None if pending.cursor is None else self._source.at(pending.cursor)
        acked = None if pending.batch_id is None else pending.end
        try:
            with self._open():
                passed, snapshots = self.stops.passed_by(pending), self.snapshots.passed_by(pending)
                lifted, client_id = self.stops.mended_by(pending), pending.client_id
                self._cursors.write(client_id, cursor, acked, stopped=passed, snapshots=snapshots, lifted=lifted)
                self.stops.note(client_id, passed, lifted)
                self.snapshots.note_acked(client_id, snapshots)
        except BaseException:
            with self._store.changed:
                self.session.abandon(pending)
                self.stages.look()
                self._store.changed.notify_all()
            raise
        with self._store.changed:
            moved = self.session.finish(pending)
            if pending.batch_id is not None:
                self.claim_times.note(self._clock() - pending.since)
            self.stages.look()
            self._store.changed.notify_all()
            return moved

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float) -> float:
        with self._store.changed:
            return self.session.renew(client_id, batch_id, owner, lease_seconds, self._clock())

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None) -> list[int]:
        with self._store.changed:
            self._await_idle(client_id)
            rolled_back = self.session.rollback(client_id, batch_id, owner)
            self.stages.look()
            self._store.changed.notify_all()
            return rolled_back

    def seen_by(self, client_id: int, batch_id: int) -> Rules:
        """The rules by which the owner of a claim sees it. Raises RangeGone."""
        with self._store.changed:
            found = self.session.rules(client_id, batch_id)
        if found is None:
            raise self._gone(client_id, batch_id)
        return found

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice]:
        with self._store.changed:
            found = self.session.slices(client_id, batch_id)
            parts = self._store.ring.log.parts
            ranges = [batch.range for batch in self.session.client(client_id).batches if batch.id == batch_id]
            unchecked = [p for one in ranges for p in parts.unchecked(one.start.sequence, one.end.sequence)]
        _check(unchecked)
        if found is None:
            raise self._gone(client_id, batch_id)
        return found

    def _gone(self, client_id: int, batch_id: int) -> RangeGone:
        return RangeGone(
            f"batch {batch_id} is not outstanding: it was acked, rolled back, or lost with a restart",
            place=f"{self._cursors.destination}, client {client_id}",
            hint="Claim again: changes that were not acked are delivered again.",
        )

    def span(self, client_id: int, batch_id: int) -> tuple[int, int] | None:
        """Where an outstanding claim lies in the log; None when it is not outstanding."""
        with self._store.changed:
            return self.session.span(client_id, batch_id)

    def upcoming(self, client_id: int, max_rows: int, max_bytes: int) -> Upcoming | None:
        """What the client's next claim with these limits will be, if that is certain; nothing is claimed."""
        with self._store.changed:
            return self.session.upcoming(client_id, max_rows, max_bytes, entries=self.readers.of_entries(client_id))

    def expire(self) -> dict[int, list[int]]:
        """Rolls back claims whose lease ran out. The batches rolled back, by client."""
        expired = {}
        with self._store.changed:
            for client_id in list(self.session.clients):
                if rolled_back := self.session.expire(client_id, self._clock()):
                    expired[client_id] = rolled_back
            if expired:
                self.stages.look()
                self._store.changed.notify_all()
        return expired

    def ack_empty(self) -> bool:
        """Acks the ranges without rows that clients are at. Whether there was one."""
        any_range = False
        for client_id in list(self.session.clients):
            with self._store.changed:
                unchecked = self._claiming.unchecked(client_id, Limits(1))
            _check(unchecked)
            with self._store.changed:
                pending = self.session.begin_skip(client_id, entries=self.readers.of_entries(client_id))
            if pending is not None:
                self._complete(pending)
                any_range = True
        return any_range

    def drop_uncommitted(self, journal_name: str) -> Dropped:
        """Drops the open transaction from the ring, before the source's next block, which is of this journal.

        In the same journal the transaction is read again, and what clients have of it stays. In a later journal it
        never comes again: a transaction lies in one journal, and a server that crashed inside it starts a new one.
        """
        with self._store.changed:
            self._store.changed.wait_for(lambda: not any(c.busy for c in self.session.clients.values()))
            ring, dropped = self._store.ring, Dropped({}, {})
            last = ring.log.last_position
            if last is not None and journal_number(journal_name) > journal_number(last.journal_name):
                dropped = self.session.drop_uncommitted()
            else:
                ring.drop_unclaimed()
            self.stages.look()
            self._store.changed.notify_all()
            return dropped

    def _await_idle(self, client_id: int) -> None:
        """Waits for an ack of the client to end. The caller holds the lock; waiting releases it."""
        self._store.changed.wait_for(lambda: not self.session.client(client_id).busy)


def _check(parts: Iterable[StoredSegment]) -> None:
    """Compares with their checksums, outside of the lock. Raises StoreDamaged."""
    for part in parts:
        part.check()
