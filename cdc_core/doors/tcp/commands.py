"""Requests of Canal's clients as calls of the destinations. Any thread may call; calls may wait for locks and disks,
but not for rows.

All connections of one client id share its batches, as in Canal: after a reconnection it may ack what it has. While one
of them is open, leases do not run out; after the last one they run for `sluice.lease.seconds`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from cdc_core.canal_protocol.requests import ClientAck, ClientRollback, Get, Login, Subscribe, Unsubscribe
from cdc_core.destination.service import CanalService
from cdc_core.doors.tcp import users
from cdc_core.doors.tcp.encoders import Encoders
from cdc_core.doors.tcp.reply import Budget, Reply
from cdc_core.errors import AccessDenied, SluiceError, TableStopped
from cdc_core.server.server import CanalServer
from cdc_core.session.claim import Claim

_BOUNDLESS = 10 * 365 * 86400.0  # seconds: the lease while a connection of the client is open
_BEGIN_SECONDS, _LOOK_SECONDS = 20.0, 0.05
_MOST_ROWS = 1 << 31
_MOST_BYTES = 64 << 20  # of the binlog in one batch: its entries are several times as large
MOST_REPLY = (1 << 31) - (1 << 10)  # bytes: the frame's length is a signed number of 32 bits

Identity = tuple[str, int]  # destination and client id


class Commands:
    """The calls of all connections."""

    def __init__(self, server: CanalServer, budget: Budget) -> None:
        self._server, self._budget = server, budget
        self._lock = threading.Lock()
        self._connections: Counter[Identity] = Counter()
        self._encoders = Encoders()

    def __repr__(self) -> str:
        return f"<Commands clients={len(self._connections)}>"

    # -- who

    def login(self, login: Login, seed: bytes) -> None:
        """Raises AccessDenied for a user whom no destination knows."""
        names = [login.destination] if login.destination else self._server.destinations()
        if not any(users.may_use(self._gate(name), login, seed) for name in names):
            raise users.refused(login)

    def check(self, destination: str, login: Login, seed: bytes) -> None:
        """Raises AccessDenied, UnknownDestination."""
        users.check(self._gate(destination), login, seed, destination)

    def _gate(self, destination: str) -> users.Gate:
        return self._server.destination(destination).config

    def arrived(self, identity: Identity) -> None:
        """A connection uses this client id: its leases last as long as the connection."""
        self._renew(identity, _BOUNDLESS)
        with self._lock:
            self._connections[identity] += 1

    def left(self, identity: Identity) -> None:
        """A connection that used it has ended."""
        with self._lock:
            self._connections[identity] -= 1
            last = self._connections[identity] <= 0
            if last:
                del self._connections[identity]
        if last:
            self._renew(identity, self._server.destination(identity[0]).config.lease_seconds)

    def _renew(self, identity: Identity, seconds: float) -> None:
        destination, client_id = identity
        service = self._server.destination(destination).service()
        for batch_id in service.batches(client_id, owner_of(client_id)):
            service.renew(client_id, batch_id, owner_of(client_id), seconds)

    # -- what

    def subscribe(self, request: Subscribe) -> None:
        """Makes the client known; its filter is kept, an empty one leaves that of before. Raises ConfigError for one
        that is no regular expression."""
        service = self._service(request.destination)
        service.subscribe(request.client_id, entries=True)
        if request.filter:
            service.set_filter(request.client_id, request.filter)
            self._override(service, request)

    def _override(self, service: CanalService, request: Subscribe) -> None:
        """Where the client's filter is over the destination's, the capture begins anew with it; waits for that."""
        config = service.config
        first = request.client_id == config.clients[0]
        if config.client_filter != "override" or not first or config.filter_regex == request.filter:
            return
        self._server.reload_destination(request.destination)
        deadline = time.monotonic() + _BEGIN_SECONDS
        while time.monotonic() < deadline:
            try:
                self._service(request.destination).clients()
                return
            except SluiceError:
                time.sleep(_LOOK_SECONDS)

    def unsubscribe(self, request: Unsubscribe) -> None:
        self._service(request.destination).unsubscribe(request.client_id)

    def ack(self, request: ClientAck) -> None:
        service = self._service(request.destination)
        service.ack(request.client_id, request.batch_id, owner_of(request.client_id))

    def rollback(self, request: ClientRollback) -> None:
        """Nothing for a client that is not subscribed: some roll back before they subscribe, as Canal allows."""
        service = self._service(request.destination)
        if request.client_id not in service.clients():
            return
        owner = owner_of(request.client_id)
        service.rollback(request.client_id, request.batch_id, owner, "its client rolled it back")

    def give_back(self, request: Get, batch_id: int) -> None:
        """Rolls back a batch that nobody received."""
        service = self._service(request.destination)
        service.rollback(request.client_id, batch_id, owner_of(request.client_id), "its client went away")

    def fetch(self, request: Get) -> Reply | None:
        """The client's next batch, without waiting for rows; None when there is none. A batch without entries for this
        client is acked here, so that none waits for an ack that never comes."""
        service, owner = self._service(request.destination), owner_of(request.client_id)
        while True:
            claim = self._claim(service, request, owner)
            if claim is None:
                return None
            reply = self._encoded(service, claim, owner)
            if reply.size:
                return reply
            reply.close()
            if service.batches(request.client_id, owner)[0] != claim.batch_id:
                service.rollback(request.client_id, claim.batch_id, owner, "it has no entries for its client")
                return None
            service.ack(request.client_id, claim.batch_id, owner)

    def _claim(self, service: CanalService, request: Get, owner: str) -> Claim | None:
        """The fetch size counts rows, or memory units of the binlog's bytes, as `canal.instance.memory.batch.mode`
        says."""
        config = service.config
        rows, nbytes = request.fetch_size, _MOST_BYTES
        if config.batch_mode == "MEMSIZE":
            rows, nbytes = _MOST_ROWS, min(request.fetch_size * config.buffer_memunit, _MOST_BYTES)
        return service.claim(request.client_id, rows, 0.0, owner, _BOUNDLESS, nbytes, entries=True)

    def _encoded(self, service: CanalService, claim: Claim, owner: str) -> Reply:
        reply = Reply(claim.batch_id, self._budget)
        try:
            for piece in self._encoders.of(service, claim.client_id).pieces(
                service.slices(claim.client_id, claim.batch_id), claim.start.gtid
            ):
                reply.add(piece)
                if reply.size > MOST_REPLY:
                    raise _too_large(claim, reply.size)
        except BaseException as error:
            reply.close()
            service.rollback(claim.client_id, claim.batch_id, owner, f"it cannot be encoded: {error}")
            if isinstance(error, Exception):
                service.note_read(claim.client_id, claim.batch_id, "the entries", error)
            raise
        service.note_read(claim.client_id, claim.batch_id, "the entries", None)
        return reply

    def _service(self, destination: str) -> CanalService:
        return self._server.destination(destination).service()


def _too_large(claim: Claim, size: int) -> TableStopped:
    tables = ", ".join(table.name for table in claim.tables)
    return TableStopped(
        f"the entries of one event are larger than Canal's protocol can carry: more than {size} bytes",
        place=f"{claim.end}: {tables}",
        hint="Read this table over Flight (cdc_core.client.connector), or leave it out with the client's filter.",
    )


def owner_of(client_id: int) -> str:
    """The owner of the batches that a client id has over TCP."""
    return f"tcp client {client_id}"


def shown(error: Exception) -> str:
    """An error as a client reads it. Who is not let in learns nothing of the configuration: the log has the remedy."""
    if isinstance(error, AccessDenied):
        return error.message
    return str(error) if isinstance(error, SluiceError) else f"an unexpected error: {type(error).__name__}: {error}"
