"""Ephemeral nodes that say "I am here": made in each new session, for as long as they are wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from kazoo.exceptions import NodeExistsError, NoNodeError

from cdc_core.errors import CursorError
from cdc_core.meta.zookeeper import ZookeeperNodes

_LOOK_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Presence:
    """Any thread may call `want` and `unwant`; a thread of its own makes and deletes the nodes. Where another session
    has made a node of the same name it waits: that is a dead predecessor's node, or another server has our address."""

    def __init__(self, nodes: ZookeeperNodes, session_seconds: float, clock: Callable[[], float] = time.monotonic):
        self._nodes = nodes
        self._client = nodes.client
        self._patience = 2 * session_seconds
        self._clock = clock
        self._wanted: dict[str, bytes] = {}
        self._made: dict[str, int] = {}  # by which session
        self._refused: dict[str, float] = {}  # since when
        self._awake = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def want(self, path: str, value: bytes = b"") -> None:
        with self._lock:
            self._wanted[path] = value
        self._awake.set()

    def unwant(self, path: str) -> None:
        with self._lock:
            self._wanted.pop(path, None)
        self._awake.set()

    def stop(self) -> None:
        """Deletes all nodes."""
        with self._lock:
            self._wanted.clear()
        self._stop.set()
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(_LOOK_SECONDS * 5)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._awake.wait(_LOOK_SECONDS)
            self._awake.clear()
            self._try_to_tend()
        self._try_to_tend()

    def _try_to_tend(self) -> None:
        try:
            self._tend()
        except CursorError:
            return  # ZooKeeper is down: the next round makes up for it, or the session's end does

    def _tend(self) -> None:
        session = self._client.client_id
        if session is None:
            return
        with self._lock:
            wanted = dict(self._wanted)
        for path in [path for path in self._made if path not in wanted]:
            if self._made.pop(path) == session[0]:
                self._delete(path)
        for path, value in wanted.items():
            if self._made.get(path) != session[0] and self._make(path, value):
                self._made[path] = session[0]

    def _make(self, path: str, value: bytes) -> bool:
        try:
            self._nodes.call(path, lambda: self._client.create_async(path, value, ephemeral=True, makepath=True))
        except NodeExistsError:
            return self._is_ours(path)
        self._refused.pop(path, None)
        return True

    def _is_ours(self, path: str) -> bool:
        stat = self._nodes.call(path, lambda: self._client.exists_async(path))
        session = self._client.client_id
        if stat is None or session is None or stat.ephemeralOwner == session[0]:
            return stat is not None and session is not None
        since = self._refused.setdefault(path, self._clock())
        if self._clock() - since > self._patience:
            self._refused[path] = self._clock()
            log.error(
                "another server has our address",
                node=path,
                hint="Give each server its own canal.register.ip and canal.port.",
            )
        return False

    def _delete(self, path: str) -> None:
        try:
            self._nodes.call(path, lambda: self._client.delete_async(path))
        except NoNodeError:
            return
