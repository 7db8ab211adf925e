"""One TCP connection in Canal's protocol, from the client's side: packets out, packets in."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from google.protobuf.message import DecodeError

from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.protocol.frames import HEAD, framed
from cdc_core.errors import ServiceUnavailable, SessionError

_HINT = "Check that a Canal or Sluice server listens there (canal.port), and connect again."


class Link:
    """Raises ServiceUnavailable when the connection breaks or the server is silent for too long."""

    def __init__(self, host: str, port: int, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        self.place = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), seconds)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise self._broken(error) from error

    def __repr__(self) -> str:
        return f"<Link {self.place}>"

    def close(self) -> None:
        self._socket.close()

    def send(self, kind: PacketType, body: Any) -> None:
        packet = declared.Packet(type=kind, body=body.SerializeToString())
        try:
            self._socket.sendall(framed(packet.SerializeToString()))
        except OSError as error:
            raise self._broken(error) from error

    def receive(self, kind: PacketType, seconds: float | None) -> bytes:
        """The body of the next packet, which must be of this kind; waits so long, None for ever. Raises SessionError
        with the server's own words where it is an error."""
        try:
            self._socket.settimeout(seconds)
            packet = declared.Packet.FromString(self._exactly(int.from_bytes(self._exactly(HEAD), "big")))
        except (OSError, DecodeError) as error:
            raise self._broken(error) from error
        if packet.type == PacketType.ACK:
            self._check(declared.Ack.FromString(packet.body))
        if packet.type != kind:
            raise self._broken(f"it sent a packet of type {packet.type}, not {kind.name}")
        return bytes(packet.body)

    def _check(self, ack: Any) -> None:
        if ack.error_code > 0:
            raise SessionError(
                f"the server refused: {ack.error_message} ({ack.error_code})",
                place=self.place,
                hint="Fix what it says, and connect again.",
            )

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            count = self._socket.recv_into(view[at:])
            if not count:
                raise ConnectionResetError("it closed the connection")
            at += count
        return data

    def _broken(self, why: object) -> ServiceUnavailable:
        return ServiceUnavailable(f"the connection to the server failed: {why}", place=self.place, hint=_HINT)
