"""The server's side of one connection: bytes in, bytes and requests out. It knows no socket and no destination.

First the handshake; then one login; then requests, one after the other. What cannot be read is answered with Canal's
error, and the connection ends: nothing after it can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from cdc_core.canal.protocol import packets
from cdc_core.canal.protocol.frames import MAX_LOGIN, MAX_REQUEST, FrameError, Frames
from cdc_core.canal.protocol.requests import Login, Refused, Request, request_of


class _Phase(Enum):
    LOGIN = auto()
    REQUESTS = auto()
    OVER = auto()


class Dialogue:
    """`receive` gives what a client asks for. The caller answers with the bytes that the other methods give, in the
    order of the requests, and closes the connection once `over`."""

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self._frames = Frames(MAX_LOGIN)
        self._phase = _Phase.LOGIN

    def __repr__(self) -> str:
        return f"<Dialogue {self._phase.name.lower()}>"

    @property
    def over(self) -> bool:
        return self._phase is _Phase.OVER

    def opening(self) -> bytes:
        """What the server sends before it hears anything."""
        return packets.handshake(self.seed)

    def receive(self, data: bytes) -> Iterator[Request | bytes]:
        """Yields the requests that end in `data`, or the error reply to an invalid one, which ends the dialogue."""
        if self.over:
            return
        try:
            for packet in self._frames.feed(data):
                yield self._checked(request_of(packet))
                if self.over:
                    return
        except FrameError as error:
            yield self.failed(packets.BAD_REQUEST, str(error))
        except Refused as error:
            yield self.failed(error.code, str(error))

    def _checked(self, request: Request) -> Request:
        login = isinstance(request, Login)
        if login != (self._phase is _Phase.LOGIN):
            raise Refused(packets.BAD_REQUEST, "already logged in" if login else "log in first: CLIENTAUTHENTICATION")
        return request

    def logged_in(self) -> bytes:
        """The login is right."""
        self._phase = _Phase.REQUESTS
        self._frames.allow(MAX_REQUEST)
        return packets.ack()

    def failed(self, code: int, message: str) -> bytes:
        """An error after which the connection ends."""
        self._phase = _Phase.OVER
        return packets.ack(code, message)
