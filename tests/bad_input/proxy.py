"""Stands between the service and MySQL and damages events of the dump on their way.

Knows MySQL's packets and nothing else: from COM_BINLOG_DUMP on each packet of the server is an event, and goes through
`damage`, which may change its bytes, or cut the connection by returning None in the middle of it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Callable

Damage = Callable[[bytearray], bytes | None]
_DUMP = 0x12


class Proxy:
    """Listens on `port` until `close`. `damaged` counts the events that came out otherwise than they went in."""

    def __init__(self, host: str, port: int) -> None:
        self.damage: Damage = bytes
        self.damaged = 0
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            dumping = threading.Event()
            for work in (self._ask, self._answer):
                threading.Thread(target=work, args=(client, server, dumping), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, dumping: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if len(data) > 4 and data[3] == 0 and data[4] == _DUMP:
                    dumping.set()
                server.sendall(data)
        _end(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, dumping: threading.Event) -> None:
        with contextlib.suppress(OSError), server.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                payload = stream.read(int.from_bytes(head[:3], "little"))
                if dumping.is_set() and payload[:1] == b"\0":
                    event = self.damage(bytearray(payload[1:]))
                    self.damaged += event != payload[1:]
                    if event is None:
                        client.sendall(head + payload[: len(payload) // 2])
                        break
                    payload = b"\0" + event
                client.sendall(len(payload).to_bytes(3, "little") + head[3:] + payload)
        _end(client, server)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def events_of(kind: int, change: Callable[[bytearray], object], *, sealed: bool) -> Damage:
    """Changes each event of a type in place; `sealed` makes its checksum anew, as if there were none to find it by."""

    def damage(event: bytearray) -> bytes:
        if event[4] == kind and int.from_bytes(event[13:17], "little"):
            change(event)
            if sealed:
                event[-4:] = zlib.crc32(event[:-4]).to_bytes(4, "little")
        return bytes(event)

    return damage
