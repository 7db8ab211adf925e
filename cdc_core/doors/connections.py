"""Bounds of the connections to a port where a library accepts them: gRPC's, and those inside a TLS handshake.

A connection costs a descriptor and anybody can open one. One on which no call with access has been made after ten
seconds is ended; so are the oldest of too many. The connections are those of this process in `/proc`; where there is
none, nothing is bounded.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

CONNECTIONS = 1024
LOGIN_SECONDS = 10.0
LOOK_SECONDS = 0.5
_DESCRIPTORS = Path("/proc/self/fd")

Peer = tuple[str, int]

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _State:
    """`last`: when it was opened, or its last call ended."""

    last: float
    known: bool = False
    calls: int = 0


class Connections:
    """Those to `port`, of which `most` stay. Any thread may call `call`; `look` is for one thread."""

    def __init__(self, port: int, most: int = CONNECTIONS, clock: Callable[[], float] = time.monotonic) -> None:
        self.port, self.most = port, most
        self._clock = clock
        self._lock = threading.Lock()
        self._states: dict[Peer, _State] = {}
        self._others: set[int] = set()  # sockets' numbers that are no connections of the port
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<Connections {len(self._states)} to {self.port}>"

    def __len__(self) -> int:
        return len(self._states)

    def start(self, port: int) -> None:
        """Looks after the port's connections until `stop`."""
        self.port = port
        self._stopped.clear()
        threading.Thread(target=self._watch, name=f"connections {port}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            self.look()

    @contextmanager
    def call(self, peer: Peer) -> Iterator[None]:
        """While a call of this peer, which has access, is in work."""
        self.begin(peer)
        try:
            yield
        finally:
            self.end(peer)

    def begin(self, peer: Peer) -> None:
        """A call of this peer, which has access, begins."""
        with self._lock:
            state = self._states.setdefault(peer, _State(self._clock()))
            state.known, state.calls = True, state.calls + 1

    def end(self, peer: Peer) -> None:
        """It ends."""
        with self._lock:
            if (state := self._states.get(peer)) is not None:
                state.calls, state.last = max(0, state.calls - 1), self._clock()

    def look(self) -> int:
        """Ends the connections that are too many, or have waited too long for a first call; their number."""
        began = self._clock()
        found = self._open()
        with self._lock:
            ended = self._excess(found, began)
        for peer in ended:
            _end(found[peer])
        for connection in found.values():
            connection.close()
        if ended:
            log.warning("connections were ended", port=self.port, ended=len(ended), most=self.most)
        return len(ended)

    def _excess(self, found: dict[Peer, socket.socket], began: float) -> set[Peer]:
        """The look `began` before the connections were listed: what came after may be missing there."""
        now = self._clock()
        later = {peer: state for peer, state in self._states.items() if state.last >= began}
        self._states = later | {peer: self._states.get(peer) or _State(now) for peer in found}
        strangers = sorted((s.last, peer) for peer, s in self._states.items() if not s.known)
        resting = sorted((s.last, peer) for peer, s in self._states.items() if s.known and not s.calls)
        late = {peer for since, peer in strangers if now - since > LOGIN_SECONDS}
        order = [peer for _, peer in strangers if peer not in late] + [peer for _, peer in resting]
        return late | set(order[: max(0, len(found) - len(late) - self.most)])

    def _open(self) -> dict[Peer, socket.socket]:
        """Duplicates of the descriptors of the port's connections, by peer."""
        found: dict[Peer, socket.socket] = {}
        sockets = set()
        for descriptor in _listed():
            with suppress(OSError):
                state = os.fstat(descriptor)
                if not stat.S_ISSOCK(state.st_mode):
                    continue
                sockets.add(state.st_ino)
                if state.st_ino not in self._others:
                    self._sort(state.st_ino, descriptor, found)
        self._others &= sockets
        return found

    def _sort(self, number: int, descriptor: int, found: dict[Peer, socket.socket]) -> None:
        """What a descriptor stands for may change until it is duplicated; then it does not."""
        connection = socket.socket(fileno=os.dup(descriptor))
        try:
            own, peer = connection.getsockname(), connection.getpeername()
            if connection.family in (socket.AF_INET, socket.AF_INET6) and own[1] == self.port:
                found[_plain(peer[0]), peer[1]] = connection
                return
            if os.fstat(connection.fileno()).st_ino == number:
                self._others.add(number)
        except OSError:  # not connected: it listens, or is not used yet
            pass
        connection.close()


def peer_of(text: str) -> Peer:
    """gRPC's name of a peer, as `ipv4:127.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
    host, _, port = text.partition(":")[2].rpartition(":")
    plain = host.replace("%5B", "").replace("%5D", "").strip("[]")
    return _plain(plain), int(port) if port.isdigit() else 0


def peer_at(address: Any) -> Peer:
    """A peer by its socket's address; one without is nobody's."""
    return (_plain(address[0]), address[1]) if address else ("", 0)


def _plain(host: str) -> str:
    """An IPv4 address as itself, also where a socket of both kinds has it."""
    return host.lower().removeprefix("::ffff:")


def _listed() -> list[int]:
    try:
        return [int(one.name) for one in _DESCRIPTORS.iterdir()]
    except OSError:
        return []


def _end(connection: socket.socket) -> None:
    """The library sees its end, and closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
