"""A client of Canal's TCP protocol over a plain socket, which sends and shows what a test says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.protocol.scramble import token


class CanalClient:
    """Each method sends one packet; `read` and `expect` take the next one that comes."""

    def __init__(self, port: int, destination: str = "shop", client_id: int = 1001, seconds: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.names = {"destination": destination, "client_id": str(client_id)}

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: int, body: Any = None, **fields: Any) -> None:
        raw = b"" if body is None else body.SerializeToString()
        self.send_raw(declared.Packet(type=kind, body=raw, **fields).SerializeToString())

    def send_raw(self, packet: bytes) -> None:
        self.socket.sendall(len(packet).to_bytes(4, "big") + packet)

    def read(self) -> Any:
        """The next packet; None at the connection's end."""
        head = self._exactly(4)
        return declared.Packet.FromString(self._exactly(int.from_bytes(head, "big"))) if head else None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                assert not data, "the connection ended inside a packet"
                return b""
            data += part
        return bytes(data)

    # -- requests

    def login(self, user: str = "", password: str | None = None, **fields: Any) -> Any:
        """Reads the handshake, and gives the ack of the login."""
        packet = self.read()
        assert packet.type == PacketType.HANDSHAKE
        assert packet.version == 1
        seed = declared.Handshake.FromString(packet.body).seeds
        sent = token(password, seed).encode() if password is not None else b""
        self.send(PacketType.CLIENTAUTHENTICATION, declared.ClientAuth(username=user, password=sent, **fields))
        return self.acked()

    def subscribe(self, filter_text: str = "") -> Any:
        self.send(PacketType.SUBSCRIPTION, declared.Sub(**self.names, filter=filter_text))
        return self.acked()

    def unsubscribe(self) -> Any:
        self.send(PacketType.UNSUBSCRIPTION, declared.Unsub(**self.names))
        return self.acked()

    def get(self, fetch_size: int = 1000, timeout: int = -1, unit: int = 2) -> Any:
        """The Messages that answer a GET."""
        self.ask(fetch_size, timeout, unit)
        packet = self.read()
        assert packet.type == PacketType.MESSAGES, declared.Ack.FromString(packet.body).error_message
        return declared.Messages.FromString(packet.body)

    def ask(self, fetch_size: int = 1000, timeout: int = -1, unit: int = 2) -> None:
        self.send(PacketType.GET, declared.Get(**self.names, fetch_size=fetch_size, timeout=timeout, unit=unit))

    def entries(self, messages: Any) -> list[Any]:
        return [declared.Entry.FromString(one) for one in messages.messages]

    def ack(self, batch_id: int) -> None:
        self.send(PacketType.CLIENTACK, declared.ClientAck(**self.names, batch_id=batch_id))

    def rollback(self, batch_id: int = 0) -> None:
        self.send(PacketType.CLIENTROLLBACK, declared.ClientRollback(**self.names, batch_id=batch_id))

    def acked(self) -> Any:
        """The Ack that comes next."""
        packet = self.read()
        assert packet is not None, "the connection ended"
        assert packet.type == PacketType.ACK
        return declared.Ack.FromString(packet.body)

    def ends(self) -> bool:
        """Whether the server closes the connection and sends nothing more."""
        return self.read() is None


@contextmanager
def connected(port: int, **options: Any) -> Iterator[CanalClient]:
    """A client that has logged in without a user."""
    client = CanalClient(port, **options)
    try:
        assert client.login().error_code == 0
        yield client
    finally:
        client.close()
