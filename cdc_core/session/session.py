"""Sessions over a ring: subscribe, claim, ack, rollback, leases. A state machine without I/O and without a clock.

Acks come in two steps, so that the cursor can be written between them, outside of any lock: `begin_ack` says which
position is to be written, `finish` moves the ring, `abandon` leaves the claim outstanding. Between the two nothing
else may move that client (`busy`). It does not promise that a range without rows is claimed: `begin_skip` passes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cdc_core.errors import SessionError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import Claim
from cdc_core.source.block import BlockSlice
from cdc_core.store.ring import Range, Ring
from cdc_core.store.summary import summarize


@dataclass(frozen=True, slots=True)
class Batch:
    """A claim that is outstanding, with the range of the ring behind it."""

    claim: Claim
    range: Range

    @property
    def id(self) -> int:
        return self.claim.batch_id


@dataclass(frozen=True, slots=True)
class Step:
    """A range about to be acked, up to `end`. `cursor` is what to write first; None when no transaction ends in it."""

    client_id: int
    range: Range
    end: EntryPosition
    cursor: EntryPosition | None
    batch_id: int | None = None


@dataclass(slots=True)
class ClientState:
    client_id: int
    cursor: EntryPosition | None  # the last acked transaction end; None before the first transaction came
    read: EntryPosition | None  # where the next claim starts
    epoch: int
    rollbacks: int
    batches: list[Batch] = field(default_factory=list)
    busy: bool = False
    moved: int = 0  # the first epoch of the present source
    seamless: dict[int, int] = field(default_factory=dict)  # as `Claim.seamless`
    last_acked: tuple[int, str] | None = None  # so that an ack whose answer was lost may be made again


class Session:
    """The clients of one destination. The mutable state is `clients` and the number of the next batch."""

    def __init__(
        self,
        destination: str,
        ring: Ring,
        table_of: Callable[[int], TableSchema],
        first_batch: int,
        gtid_after: Callable[[list[BlockSlice], str], str] = lambda _slices, before: before,
    ) -> None:
        self.clients: dict[int, ClientState] = {}
        self._destination = destination
        self._ring = ring
        self._table_of = table_of
        self._next_batch = first_batch
        self._generation = first_batch
        self._gtid_after = gtid_after

    def __repr__(self) -> str:
        out = {c.client_id: [b.id for b in c.batches] for c in self.clients.values()}
        return f"<Session {self._destination} outstanding={out}>"

    def subscribe(self, client_id: int, cursor: EntryPosition | None, epoch: int, *, wait: bool = True) -> None:
        """A client at `cursor`, its events yet to come; without `wait` it starts at the ring's newest transaction."""
        if client_id not in self.clients:
            self._ring.subscribe(client_id, cursor if wait else None)
            self.clients[client_id] = ClientState(client_id, cursor, cursor, epoch, self._generation)

    def unsubscribe(self, client_id: int) -> None:
        self._ring.unsubscribe(client_id)
        self.clients.pop(client_id, None)

    def client(self, client_id: int) -> ClientState:
        if client_id not in self.clients:
            known = ", ".join(map(str, sorted(self.clients))) or "none"
            raise SessionError(
                f"client {client_id} is not subscribed",
                place=self._place(client_id),
                hint=f"Subscribe it first; subscribed: {known}.",
            )
        return self.clients[client_id]

    def cursors(self) -> dict[int, EntryPosition]:
        return {client.client_id: client.cursor for client in list(self.clients.values()) if client.cursor}

    def newest(self) -> EntryPosition | None:
        """Where the newest transaction ends: in the ring, as the client that is furthest back will come to it, else
        its cursor."""
        clients = list(self.clients.values())
        if not clients:
            return None
        last = min(clients, key=lambda client: self._ring.marks(client.client_id).ack.sequence)
        low, high = self._ring.marks(last.client_id).ack.sequence, self._ring.committed
        return self._position(low, high, last.cursor) if high > low else last.cursor

    # -- claim

    def claim(self, client_id: int, max_rows: int, owner: str, lease_seconds: float, now: float) -> Claim | None:
        """The next range with rows, leased to `owner`; None when there is none. Looks at expired leases first.

        An owner may hold several ranges. Nobody gets one behind another owner's: what is applied ahead of a range that
        comes back makes that range look as if it were applied too.
        """
        client = self.client(client_id)
        self.expire(client_id, now)
        if client.busy or any(batch.claim.owner != owner for batch in client.batches):
            return None
        found = self._ring.take(client_id, max_rows)
        if found is None or not found.rows:
            return None
        claim = self._claim(client, found, owner, now + lease_seconds)
        self._next_batch += 1
        client.batches.append(Batch(claim, found))
        client.read = claim.end
        self._ring.advance(client_id, found.end)
        return claim

    def _claim(self, client: ClientState, found: Range, owner: str, deadline: float) -> Claim:
        low, high = found.start.sequence, found.end.sequence
        slices = self._ring.slices(low, high)
        summary = summarize(slices, self._table_of)
        end = self._position(found.start.sequence, high, client.read)
        return Claim(
            destination=self._destination,
            client_id=client.client_id,
            batch_id=self._next_batch,
            start=client.read or EntryPosition(slices[0].block.journal_name, slices[0].block.start),
            end=end,
            tables=summary.tables,
            transactions=self._ring.transactions_within(low, high),
            events=found.events,
            nbytes=found.nbytes,
            execute_times=summary.execute_times,
            epoch=client.epoch,
            owner=owner,
            lease_deadline=deadline,
            partial=found.partial,
            moved=client.moved,
            seamless=tuple(sorted(client.seamless.items())),
        )

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice] | None:
        """The blocks behind an outstanding claim; None when it is not outstanding."""
        for batch in self.client(client_id).batches:
            if batch.id == batch_id:
                return self._ring.slices(batch.range.start.sequence, batch.range.end.sequence)
        return None

    # -- ack

    def already_acked(self, client_id: int, batch_id: int, owner: str) -> bool:
        return self.client(client_id).last_acked == (batch_id, owner)

    def begin_ack(self, client_id: int, batch_id: int, owner: str) -> Step:
        """Only the first outstanding batch, and only by its owner."""
        client = self.client(client_id)
        first = client.batches[0] if client.batches else None
        if first is None or first.id != batch_id:
            expected = f"the next to ack is {first.id}" if first else "none is outstanding"
            raise SessionError(
                f"batch {batch_id} cannot be acked: {expected}",
                place=self._place(client_id),
                hint="Ack in the order of the claims; what was rolled back or outlived its lease is claimed anew.",
            )
        self._check_owner(client_id, first, owner)
        return replace(self._begin(client, first.range, first.claim.start), batch_id=first.id, end=first.claim.end)

    def begin_skip(self, client_id: int) -> Step | None:
        """What lies ahead without any row, when nothing is outstanding: the cursor of a quiet schema moves so."""
        client = self.client(client_id)
        if client.busy or client.batches:
            return None
        found = self._ring.take(client_id, 1)
        return None if found is None or found.rows else self._begin(client, found, client.read)

    def _begin(self, client: ClientState, found: Range, start: EntryPosition | None) -> Step:
        low, committed = found.start.sequence, found.committed
        cursor = None if committed is None else self._position(low, committed.sequence, start)
        client.busy = True
        return Step(client.client_id, found, self._position(low, found.end.sequence, start), cursor)

    def _position(self, low: int, high: int, start: EntryPosition | None) -> EntryPosition:
        """Where a range ends, with the GTID or the set that it has there."""
        gtid = self._gtid_after(self._ring.slices(low, high), start.gtid if start else "")
        return replace(self._ring.position(high), gtid=gtid)

    def finish(self, step: Step) -> EntryPosition | None:
        """The cursor is written: the range is done with. Returns the client's cursor."""
        client = self.client(step.client_id)
        client.cursor = step.cursor or client.cursor
        if step.batch_id is None:
            client.read = step.end
        else:
            done = client.batches.pop(0)
            client.last_acked = (done.id, done.claim.owner)
        self._ring.ack(step.client_id, step.range.end)
        client.busy = False
        return client.cursor

    def abandon(self, step: Step) -> None:
        self.client(step.client_id).busy = False

    # -- give back

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None) -> list[int]:
        """Gives back `batch_id` and the later ones; without it all, from the first of `owner` on. Ids given back."""
        batches = self.client(client_id).batches
        for at, batch in enumerate(batches):
            if batch_id is not None and batch.id == batch_id and owner is not None:
                self._check_owner(client_id, batch, owner)
            if (batch_id is None and owner in (None, batch.claim.owner)) or batch.id == batch_id:
                return self._give_back(client_id, at)
        return []

    def expire(self, client_id: int, now: float) -> list[int]:
        """Gives back the first batch whose lease ran out, and the later ones."""
        client = self.client(client_id)
        for at, batch in enumerate(client.batches):
            if batch.claim.lease_deadline <= now and not client.busy:
                return self._give_back(client_id, at)
        return []

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float, now: float) -> float:
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
            hint="Its lease ran out or it was rolled back: claim again.",
        )

    def next_deadline(self, client_id: int) -> float | None:
        return min((b.claim.lease_deadline for b in self.client(client_id).batches), default=None)

    def _give_back(self, client_id: int, at: int) -> list[int]:
        client = self.client(client_id)
        given = client.batches[at:]
        del client.batches[at:]
        client.rollbacks += 1
        client.read = given[0].claim.start
        self._ring.advance(client_id, given[0].range.start)
        return [batch.id for batch in given]

    def _check_owner(self, client_id: int, batch: Batch, owner: str) -> None:
        if batch.claim.owner != owner:
            raise SessionError(
                f"batch {batch.id} belongs to {batch.claim.owner!r}, not to {owner!r}",
                place=self._place(client_id),
                hint="Only the claimer may ack or renew; roll back without an owner to take it away.",
            )

    def _place(self, client_id: int) -> str:
        return f"{self._destination}/{client_id}"
