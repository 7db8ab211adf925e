"""A proxy between the service and MySQL that damages events of the dump.

It knows the packets of MySQL and nothing else. From COM_BINLOG_DUMP on each packet of the server is an event; `damage`
may change its bytes, or cut the connection inside the event by returning None.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Callable

from tests.support.proxy import Proxy, received

Damage = Callable[[bytearray], bytes | None]
_DUMP = 0x12


class DamagingProxy(Proxy):
    """`damaged` counts the events that were changed."""

    def __init__(self, port: int, host: str) -> None:
        self.damage: Damage = bytes
        self.damaged = 0
        self._dumping: set[socket.socket] = set()  # the server's ends of connections that dump
        super().__init__(port, host)

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        for data in received(client):
            if len(data) > 4 and data[3] == 0 and data[4] == _DUMP:
                self._dumping.add(server)
            server.sendall(data)

    def to_client(self, server: socket.socket, client: socket.socket) -> None:
        with server.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                payload = stream.read(int.from_bytes(head[:3], "little"))
                if server in self._dumping and payload[:1] == b"\0":
                    event = self.damage(bytearray(payload[1:]))
                    self.damaged += event != payload[1:]
                    if event is None:
                        client.sendall(head + payload[: len(payload) // 2])
                        return
                    payload = b"\0" + event
                client.sendall(len(payload).to_bytes(3, "little") + head[3:] + payload)


def events_of(kind: int, change: Callable[[bytearray], object], *, sealed: bool) -> Damage:
    """Damage that changes each event of a type in place. With `sealed` the checksum is computed again and does not
    reveal it."""

    def damage(event: bytearray) -> bytes:
        if event[4] == kind and int.from_bytes(event[13:17], "little"):
            change(event)
            if sealed:
                event[-4:] = zlib.crc32(event[:-4]).to_bytes(4, "little")
        return bytes(event)

    return damage
