"""A TCP gate in front of a server: passes everything on, or, while it is shut, holds it back as a cut network does.

Nobody is told of a cut: connections stay open and silent. When the gate opens again, what was held back arrives late.
"""

from __future__ import annotations

import contextlib
import socket
import threading


class Gate:
    """Listens on `port` of the loopback address from the start until `close`."""

    def __init__(self, to_port: int) -> None:
        self._to = ("127.0.0.1", to_port)
        self._passes = threading.Event()
        self._passes.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"gate {self.port}", daemon=True).start()

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def shut(self) -> None:
        self._passes.clear()

    def open(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self.open()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._passes.wait()
        try:
            far = socket.create_connection(self._to)
        except OSError:  # nobody listens behind the gate
            near.close()
            return
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                sink.sendall(data)
        self._passes.wait()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
