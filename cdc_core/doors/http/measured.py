"""Routes that count their calls, for `/metrics`. Calls of unknown destinations are not counted: labels stay few."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from cdc_core.doors.errors import status_of
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import SluiceError, UnknownDestination

_PACKETS = {"ack": "CLIENTACK", "renew": "RENEW", "rollback": "CLIENTROLLBACK", "rollback_all": "CLIENTROLLBACK"}


def measured(traffic: Traffic) -> type[APIRoute]:
    """A class of routes that report packets, errors and milliseconds to `traffic`."""

    class Measured(APIRoute):
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
