"""Tells waiting GETs that a destination has changed: one thread for each destination that anybody waits for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 1.0  # a wait ends this often: the capture may be another one by then
_PAUSE_SECONDS = 0.005  # between two wakings, so that a busy source does not wake anybody for each event

Wait = Callable[[str, int, float], tuple[int, bool]]


class Arrivals:
    """`wait(destination, seen, seconds)` returns when the destination has changed since `seen`, or after so long: what
    to give the next time, and whether it has. The other methods belong to the loop."""

    def __init__(self, wait: Wait, loop: asyncio.AbstractEventLoop) -> None:
        self._wait, self._loop = wait, loop
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<Arrivals {sum(map(len, self._waiting.values()))} wait>"

    def future(self, destination: str) -> asyncio.Future[None]:
        """Done at the destination's next change. Ask for it before the look that it shall follow."""
        future: asyncio.Future[None] = self._loop.create_future()
        if destination not in self._waiting:
            self._waiting[destination] = set()
            name = f"arrivals {destination}"
            threading.Thread(target=self._watch, args=(destination,), name=name, daemon=True).start()
        self._waiting[destination].add(future)
        future.add_done_callback(lambda done: self._waiting.get(destination, set()).discard(done))
        return future

    def close(self) -> None:
        self._closed = True

    def _watch(self, destination: str) -> None:
        seen = -1
        while not self._closed and destination in self._waiting:
            seen, changed = self._wait(destination, seen, _LOOK_SECONDS)
            if not changed and self._waiting.get(destination):
                continue
            try:
                self._loop.call_soon_threadsafe(self._wake, destination)
            except RuntimeError:  # the loop is closed
                return
            time.sleep(_PAUSE_SECONDS)

    def _wake(self, destination: str) -> None:
        """Where nobody waits any more, the thread ends."""
        waiting = self._waiting.get(destination, set())
        if not waiting:
            self._waiting.pop(destination, None)
        for future in list(waiting):
            if not future.done():
                future.set_result(None)
