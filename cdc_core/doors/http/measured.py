"""Routes that count their calls, for `/metrics`, and run each destination's calls in its own threads.

Calls of unknown destinations are not counted: labels stay few. A destination whose source hangs holds its own threads
only, and calls that ask the source do not hold those of acks.
"""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute

from cdc_core.doors.errors import status_of
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import SluiceError, UnknownDestination
from cdc_core.server.server import CanalServer

_PACKETS = {"ack": "CLIENTACK", "renew": "RENEW", "rollback": "CLIENTROLLBACK", "rollback_all": "CLIENTROLLBACK"}
_ASK = frozenset(("tables", "positions", "missing", "reset", "subscribe", "open_snapshot", "start", "stop", "reload"))
_THREADS, _ASKING = 16, 4  # of one destination; further calls queue without a thread


class _Threads:
    """The threads of each destination's calls. Used by one event loop."""

    def __init__(self, server: CanalServer) -> None:
        self._server = server
        self._plain: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(_THREADS))
        self._asking: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(_ASKING))

    def run(self, endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """The endpoint as one that is awaited. `_ASK` names those that may wait for the source."""
        limiters = self._asking if endpoint.__name__ in _ASK else self._plain

        @wraps(endpoint)
        async def awaited(**fields: Any) -> Any:
            name = fields["destination"]
            limiter = limiters[name if self._server.has(name) else ""]
            return await to_thread.run_sync(partial(endpoint, **fields), limiter=limiter)

        return awaited


def measured(server: CanalServer, traffic: Traffic) -> type[APIRoute]:
    """A class of routes that report packets, errors and milliseconds to `traffic`."""

    threads = _Threads(server)

    class Measured(APIRoute):
        def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
            waits = "{destination}" in path and not inspect.iscoroutinefunction(endpoint)
            super().__init__(path, threads.run(endpoint) if waits else endpoint, **options)

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def measured(request: Request) -> Response:
                began = time.perf_counter()
                destination = request.path_params.get("destination", "")
                try:
                    answer = await handle(request)
                except UnknownDestination:
                    raise
                except SluiceError as error:
                    traffic.failed(destination, status_of(error))
                    raise
                if destination and self.name in _PACKETS:
                    traffic.sent(destination, _PACKETS[self.name])
                if destination:
                    traffic.took(destination, (time.perf_counter() - began) * 1000)
                return answer

            return measured

    return Measured
