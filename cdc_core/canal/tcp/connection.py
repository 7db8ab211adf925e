"""One connection of a Canal client: reads requests, answers them in order, and closes when the client is idle or slow.

After an error that ends the connection it goes on reading for a while: a closed socket resets the client's next
request, and takes the reason from it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from cdc_core.canal.protocol import packets
from cdc_core.canal.protocol.dialogue import Dialogue
from cdc_core.canal.protocol.requests import (
    ClientAck,
    ClientRollback,
    Get,
    HeartBeat,
    Login,
    Request,
    Subscribe,
    Unsubscribe,
)
from cdc_core.canal.protocol.scramble import SEED
from cdc_core.canal.tcp.arrivals import Arrivals
from cdc_core.canal.tcp.commands import Commands, Identity, shown
from cdc_core.canal.tcp.reply import Reply
from cdc_core.doors.traffic import Traffic

T = TypeVar("T")
Call = Callable[..., Awaitable[Any]]  # calls a function in a thread of the destination that is named first

LOGIN_SECONDS = 10.0
IDLE_SECONDS = 3600.0  # Canal's own, where the client names no other
WRITE_SECONDS = 300.0  # for each part of an answer
LINGER_SECONDS, _LINGER_BYTES = 30.0, 4 << 20  # read and dropped after the error that ends a connection
_READ = 65536
_PART = 4 << 20  # bytes of an answer
_LOOK_SECONDS = 1.0  # between two looks whether a waiting client is still there
_FETCH_SECONDS = 15.0  # between two looks for rows without a sign of them: the capture may be another one by then

log = structlog.get_logger(__name__)


class Connection:
    """`call` runs a function of `commands` in one of the threads of the destination that its first argument names."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        commands: Commands,
        arrivals: Arrivals,
        traffic: Traffic,
        call: Call,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._commands, self._arrivals, self._traffic, self._call = commands, arrivals, traffic, call
        self._dialogue = Dialogue(os.urandom(SEED))
        self._login: Login | None = None
        self._identities: set[Identity] = set()
        self._write_seconds = WRITE_SECONDS
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until all is with the system

    def __repr__(self) -> str:
        return f"<Connection {self._writer.get_extra_info('peername')} {self._dialogue!r}>"

    @property
    def replaceable(self) -> bool:
        """Whether a new connection may take its place: it has not logged in, or its error was sent."""
        return self._login is None or self._dialogue.over

    async def serve(self) -> None:
        """Until the client leaves, is idle for too long, or sends what cannot be read."""
        answered = False
        try:
            answered = await self._converse()
        except TimeoutError:
            log.info("a TCP client was idle or slow for too long", client=str(self._writer.get_extra_info("peername")))
        except ConnectionError:
            pass
        finally:
            for identity in self._identities:
                await self._settled(identity[0], self._commands.left, identity)
        if answered:
            await self._linger()

    async def _converse(self) -> bool:
        """Whether it ended with an error that was sent."""
        await self._send(self._dialogue.opening())
        until = time.monotonic() + LOGIN_SECONDS
        while not self._dialogue.over:
            data = await asyncio.wait_for(self._reader.read(_READ), self._idle_seconds(until))
            if not data:
                return False
            for request in self._dialogue.receive(data):
                await self._answer(request)
        return True

    async def _linger(self) -> None:
        """Drops what still comes, until the client leaves."""
        left = _LINGER_BYTES
        with suppress(OSError):  # TimeoutError is one
            if self._writer.can_write_eof():
                self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and (data := await self._reader.read(_READ)):
                    left -= len(data)

    def _idle_seconds(self, login_until: float) -> float:
        if self._login is None:
            return login_until - time.monotonic()
        return self._login.read_seconds or IDLE_SECONDS

    async def _settled(self, destination: str, function: Callable[..., T], *args: Any) -> None:
        try:
            await self._call(destination, function, *args)
        except Exception as error:
            log.info("a TCP client's leases could not be changed", why=str(error))

    # -- requests

    async def _answer(self, request: Request | bytes) -> None:
        if isinstance(request, bytes):
            await self._send(request)
            return
        began, destination = time.monotonic(), getattr(request, "destination", "")
        try:
            await self._done(request)
        except (TimeoutError, ConnectionError):
            raise
        except Exception as error:
            await self._refuse(request, error, destination)
        if destination:
            self._traffic.took(destination, (time.monotonic() - began) * 1000)

    async def _refuse(self, request: Request, error: Exception, destination: str) -> None:
        """Acks and rollbacks have no answer, so a client would take their error for that of its next request: the
        connection ends. So it does for a wrong login."""
        log.warning("a TCP request was refused", request=type(request).__name__, why=str(error), exc_info=_bug(error))
        if destination:
            self._traffic.failed(destination, packets.BAD_REQUEST)
        if isinstance(request, ClientAck | ClientRollback | Login):
            await self._send(self._dialogue.failed(packets.BAD_REQUEST, shown(error)))
        else:
            await self._send(packets.ack(packets.BAD_REQUEST, shown(error)))

    async def _done(self, request: Request) -> None:
        match request:
            case Login():
                await self._log_in(request)
            case HeartBeat():
                await self._send(packets.ack())
            case Get():
                await self._check(request.destination, request.client_id)
                await self._get(request)
            case Subscribe():
                await self._check(request.destination)
                await self._call(request.destination, self._commands.subscribe, request)
                await self._meet((request.destination, request.client_id))
                await self._acked(request.destination)
            case Unsubscribe():
                await self._check(request.destination)
                await self._call(request.destination, self._commands.leave, request)
                await self._acked(request.destination)
            case ClientAck(batch_id=-1):
                pass
            case ClientAck():
                await self._check(request.destination, request.client_id)
                await self._call(request.destination, self._commands.ack, request)
            case ClientRollback():
                await self._check(request.destination)
                await self._call(request.destination, self._commands.rollback, request)

    async def _log_in(self, login: Login) -> None:
        await self._call(login.destination, self._commands.login, login, self._dialogue.seed)
        self._login = login
        self._write_seconds = login.write_seconds or WRITE_SECONDS
        if login.client_id is not None:
            subscription = Subscribe(login.destination, login.client_id, login.filter)
            await self._call(login.destination, self._commands.subscribe, subscription)
            await self._meet((login.destination, login.client_id))
        await self._send(self._dialogue.logged_in())

    async def _check(self, destination: str, client_id: int | None = None) -> None:
        assert self._login is not None  # the dialogue sees to it
        await self._call(destination, self._commands.check, destination, self._login, self._dialogue.seed)
        if client_id is not None:
            await self._meet((destination, client_id))

    async def _meet(self, identity: Identity) -> None:
        if identity not in self._identities:
            await self._call(identity[0], self._commands.arrived, identity)
            self._identities.add(identity)

    async def _acked(self, destination: str) -> None:
        await self._send(packets.ack())
        self._traffic.sent(destination, "ACK")

    # -- GET

    async def _get(self, request: Get) -> None:
        reply = await self._waited(request)
        if reply is None:
            await self._send(packets.empty_messages())
            self._traffic.sent(request.destination, "MESSAGES", empty=True)
            return
        sent = False
        try:
            if self._reader.at_eof():
                await self._call(request.destination, self._commands.give_back, request, reply.batch_id)
                raise ConnectionResetError("the client went away")
            preparing = asyncio.ensure_future(self._call(request.destination, self._commands.prepare, request))
            preparing.add_done_callback(_told)
            await self._send_batch(reply)
            sent = True
            self._traffic.sent(request.destination, "MESSAGES", reply.size)
        finally:
            reply.close(sent=sent)

    async def _send_batch(self, reply: Reply) -> None:
        """An error on the way ends the connection: nothing else may be sent inside a frame."""
        try:
            await self._send(packets.messages_head(reply.batch_id, reply.size, reply.source))
            if self._writer.get_extra_info("ssl_object") is not None:
                for part in reply.parts():
                    await self._send(part)
                return
            with self._writer.get_extra_info("socket").dup() as own:  # the transport would copy what has to wait
                for part in reply.parts():
                    for at in range(0, len(part), _PART):
                        async with asyncio.timeout(self._write_seconds):
                            await asyncio.get_running_loop().sock_sendall(own, part[at : at + _PART])
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionAbortedError(f"batch {reply.batch_id} could not be sent: {error}") from error

    async def _waited(self, request: Get) -> Reply | None:
        """The next batch, waited for as long as the client says; None without one, or when the client has left."""
        deadline = None if request.seconds is None else time.monotonic() + request.seconds
        while True:
            change = self._arrivals.future(request.destination)
            reply: Reply | None = await self._call(request.destination, self._commands.fetch, request)
            until = time.monotonic() + _FETCH_SECONDS
            until = until if deadline is None else min(until, deadline)
            while reply is None and not change.done() and (left := until - time.monotonic()) > 0:
                if self._reader.at_eof():
                    break
                await asyncio.wait([change], timeout=min(left, _LOOK_SECONDS))
            change.cancel()
            over = deadline is not None and time.monotonic() >= deadline
            if reply is not None or over or self._reader.at_eof():
                return reply

    async def _send(self, data: Any) -> None:
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), self._write_seconds)


def _told(preparing: asyncio.Future[Any]) -> None:
    """An error that nobody waits for."""
    if not preparing.cancelled() and (error := preparing.exception()) is not None:
        log.warning("a batch could not be encoded in advance", why=str(error), exc_info=error)


def _bug(error: Exception) -> Exception | None:
    """The error itself, for its stack trace, unless it is a refusal."""
    from cdc_core.errors import SluiceError

    return None if isinstance(error, SluiceError) else error
