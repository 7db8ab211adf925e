"""Canal's admin protocol, without a socket: a handshake, a login, then requests, each with one answer.

Frames, handshake and login are those of the client protocol. `answer` gives the text for a request, or raises
SluiceError. Source: Canal's AdminProtocol.proto, `SessionHandler` and `AdminNettyUtils`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from google.protobuf.message import DecodeError

from cdc_core.canal.protocol.declared import (
    Ack,
    AdminPacket,
    ClientAuth,
    Handshake,
    InstanceAdmin,
    LogAdmin,
    ServerAdmin,
)
from cdc_core.canal.protocol.frames import MAX_LOGIN, FrameError, Frames, framed
from cdc_core.canal.protocol.scramble import SEED, matches
from cdc_core.errors import SluiceError

_VERSION = 1
_REFUSED, _UNKNOWN, _FAILED = 300, 301, 400


class AdminType(IntEnum):
    """Types of packets, as far as they differ from the client protocol's."""

    HANDSHAKE = 1
    CLIENTAUTHENTICATION = 2
    ACK = 3
    SERVER = 4
    INSTANCE = 5
    LOG = 6


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """`destination` is "" where the request is about the server, or about its log."""

    kind: AdminType
    action: str
    destination: str = ""


class UnknownAction(Exception):
    """An unsupported admin action; its text is the answer."""


Answer = Callable[[AdminRequest], str]


class AdminDialogue:
    """One connection. `known` is true after its login, `over` when it has to end."""

    def __init__(self, user: str, passwd: str, answer: Answer, seed: bytes = b"") -> None:
        self._user, self._passwd, self._answer = user, passwd, answer
        self._seed = seed or secrets.token_bytes(SEED)
        self._frames = Frames(MAX_LOGIN)  # its longest request is a name
        self.known = False
        self.over = False

    def __repr__(self) -> str:
        return f"<AdminDialogue {'over' if self.over else 'logged in' if self.known else 'new'}>"

    def greeting(self) -> bytes:
        """What the server says first."""
        return _packet(AdminType.HANDSHAKE, Handshake(seeds=self._seed).SerializeToString())

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The answers to the packets that end in `data`. Nothing comes once it is over."""
        try:
            for raw in self._frames.feed(data):
                if self.over:
                    return
                yield self._taken(AdminPacket.FromString(raw))
        except (FrameError, DecodeError) as error:
            self.over = True
            yield _ack(_FAILED, f"not a packet: {error}")

    def _taken(self, packet: AdminPacket) -> bytes:
        if not self.known:
            return self._login(packet)
        try:
            return _ack(0, self._answer(_request(packet)))
        except UnknownAction as unknown:
            return _ack(_UNKNOWN, str(unknown))
        except SluiceError as error:
            return _ack(_FAILED, str(error))

    def _login(self, packet: AdminPacket) -> bytes:
        if packet.type != AdminType.CLIENTAUTHENTICATION:
            self.over = True
            return _ack(_REFUSED, "log in first")
        login = ClientAuth.FromString(packet.body)
        sent = login.password.decode("latin-1")
        if login.username != self._user or not matches(sent, self._passwd, self._seed):
            self.over = True
            return _ack(_REFUSED, f"auth failed for user:{login.username[:64]}")
        self.known = True
        return _ack(0, "")


def _request(packet: AdminPacket) -> AdminRequest:
    """Raises UnknownAction, DecodeError."""
    if packet.type == AdminType.SERVER:
        return AdminRequest(AdminType.SERVER, ServerAdmin.FromString(packet.body).action)
    if packet.type == AdminType.INSTANCE:
        found = InstanceAdmin.FromString(packet.body)
        return AdminRequest(AdminType.INSTANCE, found.action, found.destination)
    if packet.type == AdminType.LOG:
        log = LogAdmin.FromString(packet.body)
        return AdminRequest(AdminType.LOG, log.action, log.destination)
    raise UnknownAction(f"packet type: {packet.type} is NOT supported!")


def _ack(code: int, message: str) -> bytes:
    return _packet(AdminType.ACK, Ack(error_code=code, error_message=message).SerializeToString())


def _packet(kind: AdminType, body: bytes) -> bytes:
    return framed(bytes(AdminPacket(version=_VERSION, type=kind, body=body).SerializeToString()))
