"""Bounds of the HTTP door: how many connections it keeps, and how long one may rest without a request in work.

A connection costs a descriptor and anybody can open one. When all are taken, a new connection replaces the oldest one
that rests; if none rests, it is closed at once. A request that does not arrive in time ends its connection, also one
that trickles in.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from cdc_core.doors.connections import Connections, peer_at

CONNECTIONS = 512
REST_SECONDS = 10.0  # between the ends of requests; uvicorn closes those that keep silent after an answer sooner


def bounded(most: int, handshakes: Connections | None = None) -> type[asyncio.Protocol]:
    """A class of connections for uvicorn, for one door. `handshakes` bounds those that are not made yet."""

    class OfDoor(_Bounded):
        MOST = most
        HANDSHAKES = handshakes
        REST = REST_SECONDS
        taken: ClassVar[dict[_Bounded, None]] = {}

    return OfDoor


class _Bounded(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    MOST: ClassVar[int]
    HANDSHAKES: ClassVar[Connections | None]
    REST: ClassVar[float]
    taken: ClassVar[dict[_Bounded, None]]  # oldest first

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.HANDSHAKES is not None:
            self.HANDSHAKES.begin(peer_at(transport.get_extra_info("peername")))
        self._look: asyncio.TimerHandle | None = None
        if len(self.taken) >= self.MOST and not self._make_room():
            transport.abort()
            return
        self.taken[self] = None
        self._wait(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.taken.pop(self, None)
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    @property
    def rests(self) -> bool:
        """Whether no request is in work."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _make_room(self) -> bool:
        resting = next((one for one in self.taken if one.rests), None)
        if resting is None:
            return False
        del self.taken[resting]
        resting.transport.abort()
        return True

    def _wait(self, cycle: Any) -> None:
        self._look = asyncio.get_running_loop().call_later(self.REST, self._end_if_resting, cycle)

    def _end_if_resting(self, before: Any) -> None:
        """`before` is the request that was the last one at the previous look."""
        if self.rests and self.cycle is before:
            self.transport.abort()
            return
        self._wait(self.cycle)
