"""What a client asks for, as values; and how packets are read as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.protocol.packets import BAD_REQUEST, NO_BATCH, NOT_NAMED

_UNITS = (1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0, 86400.0)  # seconds of java.util.concurrent.TimeUnit, by ordinal
_MILLISECONDS = 2
_NO_LIMIT = -1
_MOST_CLIENT, _DIGITS = 32767, 6  # client ids are Java's short
_MOST_NAME = 255  # characters: a destination is a directory
_COMPRESSED = (2, 3, 4)


class Refused(Exception):
    """A request that cannot be read: `code` and the message are the answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Login:
    """`token` is the scrambled password in hexadecimal; time-outs are in seconds, 0 where the client has none.
    `destination` and `client_id` where it subscribes with the login."""

    user: str
    token: str
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    destination: str = ""
    client_id: int | None = None
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Subscribe:
    destination: str
    client_id: int
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    destination: str
    client_id: int


@dataclass(frozen=True, slots=True)
class Get:
    """`fetch_size` is in items or in memory units, as the destination's batch mode says. `seconds` to wait for rows:
    0 not at all, None for ever. `names_source`: the answer names the binlog that the places are of."""

    destination: str
    client_id: int
    fetch_size: int
    seconds: float | None = 0.0
    names_source: bool = False


@dataclass(frozen=True, slots=True)
class ClientAck:
    """Batch -1 is that of an empty answer: there is nothing to ack."""

    destination: str
    client_id: int
    batch_id: int


@dataclass(frozen=True, slots=True)
class ClientRollback:
    """Without a batch it is all of the client's."""

    destination: str
    client_id: int
    batch_id: int | None


@dataclass(frozen=True, slots=True)
class HeartBeat:
    pass


Request = Login | Subscribe | Unsubscribe | Get | ClientAck | ClientRollback | HeartBeat


def request_of(packet: bytes) -> Request:
    """Raises Refused."""
    outer = _parsed(declared.Packet, packet, "a packet")
    if outer.compression in _COMPRESSED:
        raise Refused(BAD_REQUEST, f"compression {outer.compression} is not supported: send packets as they are")
    read = _READERS.get(outer.type)
    if read is None:
        raise Refused(BAD_REQUEST, f"packet type: {outer.type} is NOT supported!")
    return read(outer.body)


def _parsed(kind: Any, data: bytes, what: str) -> Any:
    try:
        return kind.FromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise Refused(BAD_REQUEST, f"{what} cannot be read: {error}") from error


def _login(body: bytes) -> Request:
    auth = _parsed(declared.ClientAuth, body, "CLIENTAUTHENTICATION")
    try:
        token = auth.password.decode("ascii")
    except UnicodeDecodeError:
        raise Refused(BAD_REQUEST, "CLIENTAUTHENTICATION cannot be read: the password is not hexadecimal") from None
    read, write = max(auth.net_read_timeout, 0) / 1000, max(auth.net_write_timeout, 0) / 1000  # milliseconds in fact
    named = bool(auth.destination and auth.client_id)
    client = _client_id(auth.client_id) if named else None
    if named:
        _check_name(auth.destination)
    return Login(auth.username, token, read, write, auth.destination if named else "", client, auth.filter)


def _named(kind: Any, what: str, body: bytes) -> tuple[Any, str, int]:
    found = _parsed(kind, body, what)
    if not (found.destination and found.client_id):
        raise Refused(NOT_NAMED, f"destination or clientId is null. {what}")
    _check_name(found.destination)
    return found, found.destination, _client_id(found.client_id)


def _check_name(destination: str) -> None:
    if len(destination) > _MOST_NAME:
        raise Refused(BAD_REQUEST, f"a destination's name has {len(destination)} characters; at most {_MOST_NAME}")


def _client_id(text: str) -> int:
    if not (len(text) <= _DIGITS and text.isascii() and text.isdigit() and int(text) <= _MOST_CLIENT):
        raise Refused(BAD_REQUEST, f"client id {text[:40]!r} is not a number from 0 to {_MOST_CLIENT}")
    return int(text)


def _subscribe(body: bytes) -> Request:
    sub, destination, client = _named(declared.Sub, "Sub", body)
    return Subscribe(destination, client, sub.filter)


def _unsubscribe(body: bytes) -> Request:
    _, destination, client = _named(declared.Unsub, "Unsub", body)
    return Unsubscribe(destination, client)


def _get(body: bytes) -> Request:
    get, destination, client = _named(declared.Get, "Get", body)
    if get.fetch_size <= 0:
        raise Refused(BAD_REQUEST, f"fetch size {get.fetch_size}: ask for 1 to 2147483647")
    unit = get.unit if get.HasField("unit") else _MILLISECONDS
    timeout = get.timeout if get.HasField("timeout") else _NO_LIMIT
    factor = _UNITS[unit] if 0 <= unit < len(_UNITS) else _UNITS[_MILLISECONDS]
    seconds = 0.0 if timeout < 0 else timeout * factor if timeout else None
    return Get(destination, client, get.fetch_size, seconds, get.names_source)


def _ack(body: bytes) -> Request:
    ack, destination, client = _named(declared.ClientAck, "Ack", body)
    if ack.batch_id == 0:
        raise Refused(NO_BATCH, "batchId should assign value. Ack")
    return ClientAck(destination, client, ack.batch_id)


def _rollback(body: bytes) -> Request:
    rollback, destination, client = _named(declared.ClientRollback, "Rollback", body)
    return ClientRollback(destination, client, rollback.batch_id or None)


def _heart_beat(body: bytes) -> Request:
    _parsed(declared.HeartBeat, body, "HEARTBEAT")
    return HeartBeat()


_READERS: dict[int, Callable[[bytes], Request]] = {
    PacketType.CLIENTAUTHENTICATION: _login,
    PacketType.SUBSCRIPTION: _subscribe,
    PacketType.UNSUBSCRIPTION: _unsubscribe,
    PacketType.GET: _get,
    PacketType.CLIENTACK: _ack,
    PacketType.CLIENTROLLBACK: _rollback,
    PacketType.HEARTBEAT: _heart_beat,
}
