"""Requests of Canal's clients as calls of the destinations. Any thread may call; calls may wait for locks and disks,
but not for rows.

All connections of one client id share its batches, as in Canal: after a reconnection it may ack what it has. While one
of them is open, leases do not run out; after the last one they run for `sluice.lease.seconds`.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from cdc_core.canal.protocol.requests import ClientAck, ClientRollback, Get, Login, Subscribe, Unsubscribe
from cdc_core.canal.tcp import users
from cdc_core.canal.tcp.ahead import Ahead
from cdc_core.canal.tcp.buffers import Buffers
from cdc_core.canal.tcp.encoders import Encoders
from cdc_core.canal.tcp.reply import Budget, Reply
from cdc_core.contract.claim import Claim
from cdc_core.destination.service import CanalService
from cdc_core.errors import AccessDenied, SluiceError, TableStopped
from cdc_core.server.server import CanalServer
from cdc_core.session.upcoming import Upcoming

if TYPE_CHECKING:
    from cdc_core.canal.entries.encode import Encoder

_BOUNDLESS = 10 * 365 * 86400.0  # seconds: the lease while a connection of the client is open
_BEGIN_SECONDS, _LOOK_SECONDS = 20.0, 0.05
_MOST_ROWS = 1 << 31
_MOST_BYTES = 64 << 20  # of the binlog in one batch: its entries are several times as large
_MOST_AHEAD = 8 << 20  # the same of a batch that is encoded before it is asked for
_MOST_REPLY_AHEAD = 32 << 20  # and of its entries
MOST_REPLY = (1 << 31) - (1 << 10)  # bytes: the frame's length is a signed number of 32 bits

Identity = tuple[str, int]  # destination and client id


class Commands:
    """The calls of all connections."""

    def __init__(self, server: CanalServer, budget: Budget) -> None:
        self._server, self._budget = server, budget
        self._lock = threading.Lock()
        self._connections: Counter[Identity] = Counter()
        self._encoders, self._buffers, self._ahead = Encoders(), Buffers(), Ahead()

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
            self._ahead.drop(identity)
            self._renew(identity, self._server.destination(identity[0]).config.lease_seconds)

    def _renew(self, identity: Identity, seconds: float) -> None:
        destination, client_id = identity
        service = self._server.destination(destination).service()
        for batch_id in service.batches(client_id, owner_of(client_id)):
            service.renew(client_id, batch_id, owner_of(client_id), seconds)

    # -- what

    def subscribe(self, request: Subscribe) -> None:
        """Makes the client known; its filter is kept, an empty one leaves the previous one. Raises ConfigError for one
        that is no regular expression."""
        service = self._service(request.destination)
        service.subscribe(request.client_id, entries=True)
        if request.filter:
            service.set_filter(request.client_id, request.filter)
            self._override(service, request)

    def _override(self, service: CanalService, request: Subscribe) -> None:
        """Where the client's filter is over the destination's, the capture starts again with it; waits for that."""
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
        """Raises SessionError for a configured client."""
        self._service(request.destination).unsubscribe(request.client_id)

    def leave(self, request: Unsubscribe) -> None:
        """The same, but a configured client keeps its cursor and hears no error, as from Canal: many end by this
        call."""
        if request.client_id not in self._service(request.destination).config.clients:
            self.unsubscribe(request)

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
        service.rollback(request.client_id, batch_id, owner_of(request.client_id), "its client disconnected")

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
                reply.source = source_of(claim) if request.names_source else 0
                return reply
            reply.close()
            if service.batches(request.client_id, owner)[0] != claim.batch_id:
                service.rollback(request.client_id, claim.batch_id, owner, "it has no entries for its client")
                return None
            service.ack(request.client_id, claim.batch_id, owner)

    def prepare(self, request: Get) -> None:
        """Encodes what the client's next request will get, if that is certain. Its errors are the request's own."""

        def made() -> tuple[object, Reply] | None:
            service = self._service(request.destination)
            found = service.upcoming(request.client_id, *_limits(service, request))
            if found is None or _size(found) > _MOST_AHEAD:
                return None
            encoder = self._encoders.of(service, request.client_id)
            reply = Reply(-1, self._budget, self._buffers)
            try:
                for piece in encoder.pieces(found.slices, found.gtid, reply.space):
                    reply.add(piece)
                    if reply.on_disk or reply.size > _MOST_REPLY_AHEAD:
                        reply.close()
                        return None
            except BaseException:
                reply.close()
                raise
            return (service.sessions, found.span, encoder), reply

        with suppress(SluiceError):
            self._ahead.make((request.destination, request.client_id), made)

    def _claim(self, service: CanalService, request: Get, owner: str) -> Claim | None:
        rows, nbytes = _limits(service, request)
        return service.claim(request.client_id, rows, 0.0, owner, _BOUNDLESS, nbytes, entries=True)

    def _encoded(self, service: CanalService, claim: Claim, owner: str) -> Reply:
        reply = Reply(claim.batch_id, self._budget, self._buffers)
        try:
            encoder = self._encoders.of(service, claim.client_id)
            reply = self._made_ahead(service, claim, encoder) or reply
            if not reply.size:
                slices = service.slices(claim.client_id, claim.batch_id)
                for piece in encoder.pieces(slices, claim.start.gtid, reply.space):
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

    def _made_ahead(self, service: CanalService, claim: Claim, encoder: Encoder) -> Reply | None:
        """The entries of a claim, where they were encoded before it was asked for."""
        span = service.span(claim.client_id, claim.batch_id)
        reply = self._ahead.take((claim.destination, claim.client_id), (service.sessions, span, encoder))
        if reply is not None:
            reply.batch_id = claim.batch_id
        return reply

    def _service(self, destination: str) -> CanalService:
        return self._server.destination(destination).service()


def _limits(service: CanalService, request: Get) -> tuple[int, int]:
    """Rows and bytes of a batch: the fetch size counts rows, or memory units of the binlog's bytes, as
    `canal.instance.memory.batch.mode` says."""
    config = service.config
    if config.batch_mode == "MEMSIZE":
        return _MOST_ROWS, min(request.fetch_size * config.buffer_memunit, _MOST_BYTES)
    return request.fetch_size, _MOST_BYTES


def _size(found: Upcoming) -> int:
    """Bytes of the binlog."""
    return sum(int(one.index["length"].sum(dtype=np.int64)) for one in found.slices)


def _too_large(claim: Claim, size: int) -> TableStopped:
    tables = ", ".join(table.name for table in claim.tables)
    return TableStopped(
        f"the entries of one event are larger than Canal's protocol can carry: more than {size} bytes",
        place=f"{claim.end}: {tables}",
        hint="Read this table over Flight (cdc_core.client.connector), or leave it out with the client's filter.",
    )


def source_of(claim: Claim) -> int:
    """Names the binlog that the claim's places are of: places of two of them cannot be compared. The entries' server
    ids do not say it: a replica's binlog has its master's."""
    return zlib.crc32(claim.identity.encode()) << 31 | claim.moved + 1


def owner_of(client_id: int) -> str:
    """The owner of the batches that a client id has over TCP."""
    return f"tcp client {client_id}"


def shown(error: Exception) -> str:
    """An error as a client reads it. Who is not let in learns nothing of the configuration: the log has the remedy."""
    if isinstance(error, AccessDenied):
        return error.message
    return str(error) if isinstance(error, SluiceError) else f"an unexpected error: {type(error).__name__}: {error}"
