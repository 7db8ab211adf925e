"""Frames: a length of four bytes, big-endian, then one Packet."""

from __future__ import annotations

from collections.abc import Iterator

MAX_REQUEST = 1 << 20  # bytes of a client's packet: its longest field is a filter
MAX_LOGIN = 1 << 14  # bytes of a packet before the login: anybody may send it
HEAD = 4


class FrameError(Exception):
    """A length that no packet has. What follows it cannot be read."""


def framed(packet: bytes) -> bytes:
    """A packet with its length."""
    return len(packet).to_bytes(HEAD, "big") + packet


class Frames:
    """Cuts a stream into packets. Holds at most one packet that is not whole."""

    def __init__(self, most: int = MAX_REQUEST) -> None:
        self._most = most
        self._rest = bytearray()

    def __repr__(self) -> str:
        return f"<Frames {len(self._rest)} bytes wait>"

    def allow(self, most: int) -> None:
        """Accepts packets of up to `most` bytes from now on."""
        self._most = most

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The packets that end in `data`. Raises FrameError for a length that is negative or too large."""
        self._rest += data
        while len(self._rest) >= HEAD:
            size = int.from_bytes(self._rest[:HEAD], "big", signed=True)
            if not 0 <= size <= self._most:
                raise FrameError(f"a packet of {size} bytes; at most {self._most} are read")
            if len(self._rest) < HEAD + size:
                return
            packet = bytes(self._rest[HEAD : HEAD + size])
            del self._rest[: HEAD + size]
            yield packet
