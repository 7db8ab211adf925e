"""The admin door: few connections, a thread for each, closed when they say nothing for long.

A connection has ten seconds for its login. When all are taken, a new one replaces the oldest that has not logged in."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import structlog

from cdc_core.canal.admin.answers import AdminAnswers
from cdc_core.canal.protocol.admin import AdminDialogue
from cdc_core.doors.address import listen
from cdc_core.server.server import CanalServer

_MOST = 16  # connections
_IDLE_SECONDS = 3600.0
_LOGIN_SECONDS = 10.0
_PART = 1 << 16

log = structlog.get_logger(__name__)


class AdminDoor:
    """Between `start` and `stop` whoever knows `user` and the password that `passwd` is the hash of may ask."""

    def __init__(self, server: CanalServer, host: str, port: int, user: str, passwd: str) -> None:
        self.host, self.port = host, port
        self._user, self._passwd, self._answers = user, passwd, AdminAnswers(server)
        self._listener: socket.socket | None = None
        self._open: dict[socket.socket, AdminDialogue] = {}  # oldest first
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<AdminDoor {self.host}:{self.port} {len(self._open)} connections>"

    def start(self) -> None:
        """Raises ConfigError for a port that cannot be used."""
        self._listener = listen(self.host, self.port, "canal.admin.port")
        self._listener.listen(_MOST)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), name="admin door", daemon=True).start()

    def stop(self) -> None:
        if self._listener is not None:
            _close(self._listener)
            self._listener = None
        with self._lock:
            for connection in self._open:
                _close(connection)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it is closed
                return
            dialogue = AdminDialogue(self._user, self._passwd, self._answers)
            with self._lock:
                leaves = self._leaving()
                taken = len(self._open) < _MOST
                if taken:
                    self._open[connection] = dialogue
            if leaves is not None:
                _close(leaves)
            if taken:
                threading.Thread(target=self._serve, args=(connection, dialogue), name="admin", daemon=True).start()
            else:
                _close(connection)

    def _leaving(self) -> socket.socket | None:
        """The connection that a new one replaces: the oldest without a login, once all are taken."""
        if len(self._open) < _MOST:
            return None
        found = next((one for one, dialogue in self._open.items() if not dialogue.known), None)
        if found is not None:
            del self._open[found]
        return found

    def _serve(self, connection: socket.socket, dialogue: AdminDialogue) -> None:
        try:
            connection.settimeout(_LOGIN_SECONDS)
            connection.sendall(dialogue.greeting())
            for data in _received(connection, dialogue):
                for answer in dialogue.feed(data):
                    connection.sendall(answer)
        except OSError:  # it went away, or said nothing for too long
            pass
        except Exception:
            log.exception("a connection of canal-admin failed")
        finally:
            with self._lock:
                self._open.pop(connection, None)
            _close(connection)


def _received(connection: socket.socket, dialogue: AdminDialogue) -> Iterator[bytes]:
    """What arrives, until the connection ends. Raises TimeoutError; the time for the login is that of all its bytes."""
    until = time.monotonic() + _LOGIN_SECONDS
    while not dialogue.over:
        left = _IDLE_SECONDS if dialogue.known else until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no login in time")
        connection.settimeout(left)
        data = connection.recv(_PART)
        if not data:
            return
        yield data


def _close(connection: socket.socket) -> None:
    with suppress(OSError):  # not connected
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
