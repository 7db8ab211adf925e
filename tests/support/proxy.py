"""A TCP proxy on the loopback address in front of a server, for faults of the network between two parts.

`Proxy` passes everything on; it can move to another server, hang up, fall silent, or lose one answer. `Gate` holds data
back, as a cut network does, and lets it arrive late.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


class Proxy:
    """Listens on `port` from the start until `close`. A subclass may override how one direction is carried."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.muted = False  # while it is, the server's answers are swallowed
        self._target = (host, port)
        self._loses_next = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        _start(self._accept)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops listening and ends all connections."""
        _end(self._listener)
        self.disconnect()

    def disconnect(self) -> None:
        """Ends all connections; new ones are served."""
        ended, self._open = self._open, set()
        _end(*ended)

    def move(self, port: int, host: str = "127.0.0.1") -> None:
        """Stands in front of another server from now on."""
        self.lead(port, host)
        self.disconnect()

    def lead(self, port: int, host: str = "127.0.0.1") -> None:
        """New connections go to another server, as a load balancer's do; those that are open stay."""
        self._target = (host, port)

    def lose_next_answer(self) -> None:
        """The server's next answer is swallowed, and its connection ends."""
        self._loses_next = True

    def connect(self) -> socket.socket:
        """A connection to the server."""
        return socket.create_connection(self._target)

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        """Carries what the client sends until it ends."""
        for data in received(client):
            server.sendall(data)

    def to_client(self, server: socket.socket, client: socket.socket) -> None:
        """Carries what the server sends until it ends."""
        for data in received(server):
            if self._loses_next:
                self._loses_next = False
                return
            if not self.muted:
                client.sendall(data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                _start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = self.connect()
        except OSError:  # nobody listens there
            client.close()
            return
        self._open |= {client, server}
        _start(self._carry, self.to_server, client, server)
        self._carry(self.to_client, server, client)

    def _carry(
        self, way: Callable[[socket.socket, socket.socket], None], source: socket.socket, sink: socket.socket
    ) -> None:
        with contextlib.suppress(OSError):
            way(source, sink)
        self._open -= {source, sink}
        _end(source, sink)


class Gate(Proxy):
    """While it is shut, connections stay open and silent, and nobody notices; what was held back arrives later."""

    def __init__(self, port: int) -> None:
        self._passes = threading.Event()
        self._passes.set()
        super().__init__(port)

    def shut(self) -> None:
        self._passes.clear()

    def open(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self.open()
        super().close()

    def connect(self) -> socket.socket:
        self._passes.wait()
        return super().connect()

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        self._pass_on(client, server)

    def to_client(self, server: socket.socket, client: socket.socket) -> None:
        self._pass_on(server, client)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        for data in received(source):
            self._passes.wait()
            sink.sendall(data)
        self._passes.wait()  # an end is held back too


def received(source: socket.socket) -> Iterator[bytes]:
    """What arrives, piece by piece, until the connection ends in whatever way."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            yield data


def _start(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, name=f"proxy {work.__name__}", daemon=True).start()


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
