"""The TCP door: an event loop in its own thread, which accepts connections and serves them all."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog
from anyio import CapacityLimiter, to_thread

from cdc_core.canal.protocol import packets
from cdc_core.canal.tcp.arrivals import Arrivals
from cdc_core.canal.tcp.commands import Commands
from cdc_core.canal.tcp.connection import LOGIN_SECONDS, Connection
from cdc_core.canal.tcp.reply import Budget
from cdc_core.doors.address import bracketed, listen
from cdc_core.doors.certificate import Certificate
from cdc_core.doors.connections import Connections, peer_at
from cdc_core.doors.traffic import Traffic
from cdc_core.server.server import CanalServer

CONNECTIONS = 1024
_THREADS = 8  # of one destination, that call it and encode; one that hangs holds its own only
_MEMORY = 128 << 20  # bytes of replies that wait to be sent
_STOP_SECONDS = 5.0
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}  # a host that vanished is noticed so

log = structlog.get_logger(__name__)


class TcpDoor:
    """Serves `server` on `host:port` between `start` and `stop`; port 0 binds a free port. With a certificate it speaks
    TLS alone."""

    def __init__(
        self,
        server: CanalServer,
        host: str,
        port: int,
        traffic: Traffic | None = None,
        *,
        certificate: Certificate | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self.host, self.port = host, port
        self.server, self._traffic = server, traffic or Traffic(server.has)
        self._certificate, self._most = certificate, connections
        self._handshakes = Connections(port, 2 * connections) if certificate else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None
        self._open: dict[asyncio.Task[Any], Connection] = {}  # oldest first

    def __repr__(self) -> str:
        return f"<TcpDoor {self.url} {len(self._open)} connections>"

    @property
    def url(self) -> str:
        return f"tcp://{bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Returns when the door accepts connections. Raises ConfigError for a port that cannot be used."""
        context = self._certificate.context if self._certificate else None
        listener = listen(self.host, self.port, "canal.port")
        self.port = listener.getsockname()[1]
        ready = threading.Event()
        run = partial(asyncio.run, self._run(listener, context, ready))
        self._thread = threading.Thread(target=run, name="tcp door", daemon=True)
        self._thread.start()
        ready.wait()
        if self._handshakes is not None:
            self._handshakes.start(self.port)

    def stop(self) -> None:
        """Ends all connections. What they hold comes again."""
        if self._loop is None or self._stopping is None or self._thread is None:
            return
        if self._handshakes is not None:
            self._handshakes.stop()
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)
        self._loop = self._thread = None

    async def _run(self, listener: Any, context: ssl.SSLContext | None, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        arrivals, commands = Arrivals(self._wait, self._loop), Commands(self.server, Budget(_MEMORY))
        threads: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(_THREADS))

        def call(destination: str, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
            limiter = threads[destination if self.server.has(destination) else ""]
            return to_thread.run_sync(function, *args, limiter=limiter, abandon_on_cancel=True)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(Connection(reader, writer, commands, arrivals, self._traffic, call), writer)

        seconds = LOGIN_SECONDS if context else None
        accepting = await asyncio.start_server(serve, sock=listener, ssl=context, ssl_handshake_timeout=seconds)
        ready.set()
        await self._stopping.wait()
        accepting.close()
        arrivals.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*tuple(self._open), return_exceptions=True)

    async def _serve(self, connection: Connection, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._handshakes is not None:
            self._handshakes.begin(peer_at(writer.get_extra_info("peername")))
        if len(self._open) >= self._most and not self._make_room():
            log.warning("a TCP connection was refused: too many are open", open=len(self._open), most=self._most)
            writer.write(packets.ack(packets.BAD_REQUEST, f"{self._most} connections are open: try again later"))
            writer.close()
            return
        self._open[task] = connection
        _keep_alive(writer.get_extra_info("socket"))
        try:
            await connection.serve()
        except asyncio.CancelledError:
            pass
        except Exception:
            log.exception("a TCP connection failed", connection=str(connection))
        finally:
            self._open.pop(task, None)
            writer.close()

    def _make_room(self) -> bool:
        """Ends the oldest connection that has not logged in, or has got its error. False without one."""
        for task, connection in self._open.items():
            if connection.replaceable:
                del self._open[task]
                task.cancel()
                return True
        return False

    def _wait(self, destination: str, seen: int, seconds: float) -> tuple[int, bool]:
        """As `CanalService.await_change`."""
        try:
            return self.server.destination(destination).service().await_change(seen, seconds)
        except Exception:  # it stops, or is gone: whoever waits asks it, and gets the error
            threading.Event().wait(seconds)
            return -1, True


def _keep_alive(connection: socket.socket) -> None:
    """Two minutes after a client's host has vanished, its connection ends."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
