"""The life of a door of HTTP: it listens, and a thread of this process serves an application until it is stopped.

With a certificate a second thread ends connections that do not finish their TLS handshake: uvicorn learns of a
connection behind it.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from cdc_core.doors.address import bracketed, listen
from cdc_core.doors.bounds import CONNECTIONS, bounded
from cdc_core.doors.certificate import Certificate
from cdc_core.doors.connections import Connections
from cdc_core.errors import ConfigError

_START_SECONDS = 10.0
_STOP_SECONDS = 5.0  # waiting claim calls look up once a second


class WebDoor:
    """Serves `app` on `host:port` between `start` and `stop`; port 0 binds a free port. `key` is the setting that names
    the port."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        key: str,
        connections: int = CONNECTIONS,
        certificate: Certificate | None = None,
    ) -> None:
        self.host = host
        self._most, self._certificate = connections, certificate
        self._connections = Connections(port, 2 * connections) if certificate else None
        self.port = port
        self._app, self._key = app, key
        self._uvicorn: _Uvicorn | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}{'' if self._thread else ' closed'}>"

    @property
    def url(self) -> str:
        return f"http{'s' if self._certificate else ''}://{bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Returns when the door answers calls. Raises ConfigError when the port cannot be bound."""
        listener = listen(self.host, self.port, self._key)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            http=bounded(self._most, self._connections),
            ssl_context_factory=partial(_context, self._certificate) if self._certificate else None,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
        )
        self._uvicorn = _Uvicorn(config)
        self._thread = threading.Thread(target=self._uvicorn.run, args=([listener],), name="http door", daemon=True)
        self._thread.start()
        _await_started(self._uvicorn, self._thread, self.url)
        if self._connections is not None:
            self._connections.start(self.port)

    def stop(self) -> None:
        if self._uvicorn is None or self._thread is None:
            return
        if self._connections is not None:
            self._connections.stop()
        self._uvicorn.end()
        self._thread.join(_STOP_SECONDS)
        self._thread = None


def _context(certificate: Certificate, *_: object) -> ssl.SSLContext:
    return certificate.context


class _Uvicorn(uvicorn.Server):
    """Sleeps until `end`; uvicorn's own loop wakes ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = threading.Event()
        self._wake: Callable[[], object] = lambda: None

    def end(self) -> None:
        self._ended.set()
        self._wake()

    async def main_loop(self) -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        self._wake = partial(_if_open, loop, woken.set)
        if not self._ended.is_set():
            await woken.wait()


def _if_open(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: it has ended
        loop.call_soon_threadsafe(call)


def _await_started(server: _Uvicorn, thread: threading.Thread, url: str) -> None:
    waited = threading.Event()
    for _ in range(int(_START_SECONDS / 0.02)):
        if server.started:
            return
        if not thread.is_alive():
            break
        waited.wait(0.02)
    server.end()
    raise ConfigError("the HTTP door did not open", place=url, hint="See the service's log for the reason.")
