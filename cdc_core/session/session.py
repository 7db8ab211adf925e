"""The clients of one destination: subscribe, claim, ack, rollback, leases. A state machine without I/O or clock.

An ack has two steps, so that the cursor can be written between them, outside of any lock: `begin_ack` says which
cursor to write; then `finish` moves the ring, or `abandon` leaves the claim outstanding. A range without rows and DDL
statements is never claimed: `begin_skip` acks it in the same two steps. Who reads entries (`entries`: Canal's clients,
message queues) claims it where it has a statement that entries alone show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cdc_core.binlog.block import BlockSlice
from cdc_core.contract.claim import Claim
from cdc_core.contract.reached import How, Reached
from cdc_core.errors import SessionError
from cdc_core.meta.epoch import Epoch
from cdc_core.position import EntryPosition
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.table import TableSchema
from cdc_core.session.ranges import GtidAfter, Ranges
from cdc_core.session.state import Batch, ClientState, Dropped, PendingAck
from cdc_core.session.upcoming import BEHIND, Upcoming
from cdc_core.store.range import Range
from cdc_core.store.ring import Ring


class Session:
    """The mutable state is `clients` and the number of the next batch.

    `gtid_after` gives the GTID or the set after some events, from that before them. `captured`: the filter by which the
    log is read, if that is known.
    """

    def __init__(
        self,
        destination: str,
        ring: Ring,
        table_of: Callable[[int], TableSchema],
        first_batch: int,
        gtid_after: GtidAfter = lambda _slices, before: before,
        captured: tuple[str, str] | None = None,
    ) -> None:
        self.clients: dict[int, ClientState] = {}
        self._destination = destination
        self._ring = ring
        self._next_batch = first_batch
        self._generation = first_batch
        self._left_rollbacks = 0  # of clients that are unsubscribed
        self._ranges = Ranges(destination, ring, table_of, gtid_after, captured)

    def __repr__(self) -> str:
        out = {c.client_id: [b.id for b in c.batches] for c in self.clients.values()}
        return f"<Session {self._destination} outstanding={out}>"

    def subscribe(
        self,
        client_id: int,
        cursor: EntryPosition | None,
        epoch: Epoch,
        reached: Reached | None = None,
        *,
        wait: bool = True,
    ) -> None:
        """Adds a client at `cursor`, whose next event is yet to come; without `wait` at the newest transaction."""
        if client_id not in self.clients:
            self._ring.subscribe(client_id, cursor if wait else None)
            client = ClientState(client_id, cursor, cursor, epoch, self._generation, reached=reached)
            self.clients[client_id] = client

    def unsubscribe(self, client_id: int) -> None:
        self._ring.unsubscribe(client_id)
        if left := self.clients.pop(client_id, None):
            self._left_rollbacks += left.rollbacks

    @property
    def rollbacks(self) -> int:
        """Of all clients since the destination started; also of those that are unsubscribed by now."""
        return self._left_rollbacks + sum(client.rollbacks for client in self.clients.values())

    def client(self, client_id: int) -> ClientState:
        if client_id not in self.clients:
            known = ", ".join(map(str, sorted(self.clients))) or "none"
            raise SessionError(
                f"client {client_id} is not subscribed",
                place=self._place(client_id),
                hint=f"Subscribe it first. Subscribed: {known}.",
            )
        return self.clients[client_id]

    def cursors(self) -> dict[int, EntryPosition]:
        return {client.client_id: client.cursor for client in list(self.clients.values()) if client.cursor}

    def newest(self) -> EntryPosition | None:
        """Where the newest transaction ends: in the ring, or at the cursor of the client that is furthest behind."""
        clients = list(self.clients.values())
        if not clients:
            return None
        last = min(clients, key=lambda client: self._ring.marks(client.client_id).ack.sequence)
        low, high = self._ring.marks(last.client_id).ack.sequence, self._ring.log.committed.sequence
        start = last.batches[0].claim.start if last.batches else last.next_start
        return self._ranges.position(low, high, start) if high > low else last.cursor

    # -- claim

    def claim(
        self,
        client_id: int,
        max_rows: int,
        owner: str,
        lease_seconds: float,
        now: float,
        max_bytes: int | None = None,
        *,
        entries: bool = False,
        rules: Rules = NO_RULES,
    ) -> Claim | None:
        """The next range with rows or DDL statements, leased to `owner` until `now + lease_seconds`; None without one.

        An owner may hold several claims. It gets none after another owner's: if that one were rolled back, the later
        one, already applied, would make its rows look applied too.
        """
        client = self.client(client_id)
        self.expire(client_id, now)
        if client.busy or any(batch.claim.owner != owner for batch in client.batches):
            return None
        found = self._ring.take(client_id, max_rows, max_bytes, entries=entries)
        if found is None or (found.empty and not (entries and self._tells(client, found))):
            return None
        claim = self._ranges.claim(client, found, self._next_batch, owner, now + lease_seconds)
        self._next_batch += 1
        client.batches.append(Batch(claim, found, rules, now))
        client.next_start = claim.end
        self._ring.advance(client_id, found.end)
        return claim

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice] | None:
        """The events of an outstanding claim; None when it is not outstanding."""
        for batch in self.client(client_id).batches:
            if batch.id == batch_id:
                return self._ring.log.slices(batch.range.start.sequence, batch.range.end.sequence)
        return None

    def rules(self, client_id: int, batch_id: int) -> Rules | None:
        """The rules by which the owner of an outstanding claim sees it; None when it is not outstanding."""
        return next((batch.rules for batch in self.client(client_id).batches if batch.id == batch_id), None)

    def span(self, client_id: int, batch_id: int) -> tuple[int, int] | None:
        """Where an outstanding claim lies in the log."""
        found = (batch.range for batch in self.client(client_id).batches if batch.id == batch_id)
        return next(((one.start.sequence, one.end.sequence) for one in found), None)

    def upcoming(self, client_id: int, max_rows: int, max_bytes: int, *, entries: bool = False) -> Upcoming | None:
        """What the next claim with these limits will be. None where that is not certain yet: the range must end with a
        transaction, so that none of it is dropped, and more must lie after it."""
        client, log = self.client(client_id), self._ring.log
        if client.next_start is None:
            return None
        found = self._ring.take(client_id, max_rows, max_bytes, entries=entries)
        if found is None or found.empty or found.partial or self._ring.put.nbytes < found.end.nbytes + BEHIND:
            return None
        low, high = found.start.sequence, found.end.sequence
        if log.parts.unchecked(low, high):
            return None
        return Upcoming(low, high, client.next_start.gtid, log.slices(low, high))

    def keep_ddl(self, claim: Claim) -> None:
        """Takes in the DDL statements of a claim that was handed out, which were read outside of the lock."""
        batches = self.client(claim.client_id).batches
        for at, batch in enumerate(batches):
            if batch.id == claim.batch_id:
                batches[at] = replace(batch, claim=replace(batch.claim, ddl=claim.ddl))

    # -- ack

    def already_acked(self, client_id: int, batch_id: int, owner: str) -> bool:
        return self.client(client_id).last_acked == (batch_id, owner)

    def begin_ack(self, client_id: int, batch_id: int, owner: str) -> PendingAck:
        """The first outstanding batch, by its owner. Raises SessionError for another batch or another owner."""
        client = self.client(client_id)
        first = client.batches[0] if client.batches else None
        if first is None or first.id != batch_id:
            expected = f"the next to ack is {first.id}" if first else "none is outstanding"
            raise SessionError(
                f"batch {batch_id} cannot be acked: {expected}",
                place=self._place(client_id),
                hint="Ack batches in the order of their claims; claim again what was rolled back or expired.",
            )
        self._check_owner(client_id, first, owner)
        claim, pending = first.claim, self._begin(client, first.range, first.claim.start)
        named, redefined = claim.table_names, claim.redefined
        known = replace(pending, batch_id=first.id, end=claim.end, since=first.since)
        return replace(known, tables=named, redefined=redefined)

    def begin_skip(self, client_id: int, *, entries: bool = False) -> PendingAck | None:
        """The next range, if it is empty and no claim is outstanding: so the cursor of a quiet schema moves."""
        client = self.client(client_id)
        if client.busy or client.batches:
            return None
        found = self._ring.take(client_id, 1)
        if found is None or not found.empty or (entries and self._tells(client, found)):
            return None
        return self._begin(client, found, client.next_start)

    def _tells(self, client: ClientState, found: Range) -> bool:
        """Whether an empty range has what entries show: a DDL statement, or the end of a transaction whose rows came in
        parts before it."""
        if client.batches:
            within = client.batches[-1].range.partial
        else:
            within = client.next_start is not None and client.next_start != client.cursor
        return within or self._ring.log.unshown_within(found.start.sequence, found.end.sequence) is not None

    def _begin(self, client: ClientState, found: Range, start: EntryPosition | None) -> PendingAck:
        low, committed = found.start.sequence, found.committed
        cursor = None if committed is None else self._ranges.position(low, committed.sequence, start)
        client.busy = True
        return PendingAck(client.client_id, found, self._ranges.position(low, found.end.sequence, start), cursor)

    def finish(self, pending: PendingAck) -> EntryPosition | None:
        """Ends an ack whose cursor was written: the range leaves the ring. The client's cursor."""
        client = self.client(pending.client_id)
        client.cursor = pending.cursor or client.cursor
        if pending.batch_id is None:
            client.next_start = pending.end
        else:
            done = client.batches.pop(0)
            client.last_acked = (done.id, done.claim.owner)
            epoch, end = client.epoch.number, done.claim.end
            client.reached = client.reached.after(epoch, end) if client.reached else Reached(How.BATCH, epoch, end)
        self._ring.ack(pending.client_id, pending.range.end)
        client.busy = False
        return client.cursor

    def abandon(self, pending: PendingAck) -> None:
        """Ends an ack whose cursor could not be written: the claim stays outstanding."""
        self.client(pending.client_id).busy = False

    # -- rollback

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None) -> list[int]:
        """Rolls back `batch_id` and all later ones; without it, the first of `owner` and all later ones. Their ids."""
        batches = self.client(client_id).batches
        for at, batch in enumerate(batches):
            if batch_id is not None and batch.id == batch_id and owner is not None:
                self._check_owner(client_id, batch, owner)
            if (batch_id is None and owner in (None, batch.claim.owner)) or batch.id == batch_id:
                return self._roll_back(client_id, at)
        return []

    def drop_uncommitted(self) -> Dropped:
        """Drops the open transaction from the ring, as it will never end. The clients' cursors lie before it."""
        dropped, committed = Dropped({}, {}), self._ring.log.committed
        for client_id, client in self.clients.items():
            lost = [at for at, batch in enumerate(client.batches) if batch.range.end > committed]
            if lost:
                dropped.claims[client_id] = self._roll_back(client_id, lost[0])
            ack = self._ring.marks(client_id).ack
            if (ack.rows > committed.rows or ack.statements > committed.statements) and client.next_start is not None:
                dropped.acked[client_id] = client.next_start
            if ack > committed:
                client.next_start = client.cursor
        self._ring.drop_uncommitted()
        return dropped

    def expire(self, client_id: int, now: float) -> list[int]:
        """Rolls back the first batch whose lease has run out, and all later ones. Their ids."""
        client = self.client(client_id)
        for at, batch in enumerate(client.batches):
            if batch.claim.lease_deadline <= now and not client.busy:
                return self._roll_back(client_id, at)
        return []

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float, now: float) -> float:
        """The new lease deadline. Raises SessionError for a batch that is not outstanding, or not of this owner."""
        client = self.client(client_id)
        for at, batch in enumerate(client.batches):
            if batch.id == batch_id:
                self._check_owner(client_id, batch, owner)
                claim = replace(batch.claim, lease_deadline=now + lease_seconds)
                client.batches[at] = replace(batch, claim=claim)
                return claim.lease_deadline
        raise SessionError(
            f"batch {batch_id} is not outstanding",
            place=self._place(client_id),
            hint="It was acked or rolled back, or its lease ran out: claim again.",
        )

    def next_deadline(self, client_id: int) -> float | None:
        """When the first lease of the client runs out; None without claims."""
        return min((b.claim.lease_deadline for b in self.client(client_id).batches), default=None)

    def _roll_back(self, client_id: int, at: int) -> list[int]:
        client = self.client(client_id)
        rolled_back = client.batches[at:]
        del client.batches[at:]
        client.rollbacks += 1
        client.generation += 1
        client.next_start = rolled_back[0].claim.start
        self._ring.advance(client_id, rolled_back[0].range.start)
        return [batch.id for batch in rolled_back]

    def _check_owner(self, client_id: int, batch: Batch, owner: str) -> None:
        if batch.claim.owner != owner:
            raise SessionError(
                f"batch {batch.id} belongs to {batch.claim.owner!r}, not to {owner!r}",
                place=self._place(client_id),
                hint="Only the owner may ack or renew a batch. To take it away, roll it back without an owner.",
            )

    def _place(self, client_id: int) -> str:
        return f"{self._destination}/{client_id}"
