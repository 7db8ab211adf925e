"""Reused memory for output: fresh pages cost more than writing to them.

A Room lends parts of one buffer until it is cleared; what does not fit is fresh memory, and the buffer is larger the
next time. Rooms keep a few of them, so that not every thread holds its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cdc_core.compiled.kernel import Bytes
from cdc_core.compiled.words import SLACK

_MOST = 24 << 20  # bytes: what one room keeps
_KEPT = 2
_ALIGN = 64


def fresh(size: int) -> Bytes:
    """Memory of one's own."""
    return np.empty(size, np.uint8)


class Room:
    """One thread at a time."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, np.uint8)
        self._used = 0

    def __repr__(self) -> str:
        return f"<Room {self._used} of {len(self._buffer)} bytes>"

    def take(self, size: int) -> Bytes:
        """So many bytes of any content, with SLACK after them. Valid until `clear`."""
        start = self._used
        self._used += -(-(size + SLACK) // _ALIGN) * _ALIGN
        if self._used > len(self._buffer):
            return np.empty(size + SLACK, np.uint8)[:size]
        return self._buffer[start : start + size]

    def clear(self) -> None:
        """All that was lent comes back."""
        if len(self._buffer) < self._used <= _MOST:
            self._buffer = np.empty(self._used + self._used // 4, np.uint8)
        self._used = 0


class Rooms:
    """Safe from any thread."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._lock = threading.Lock()
        self._kept = kept
        self._free: list[Room] = []

    def __repr__(self) -> str:
        return f"<Rooms {len(self._free)} free>"

    @contextmanager
    def room(self) -> Iterator[Room]:
        """A room of one's own for as long as it lasts."""
        with self._lock:
            room = self._free.pop() if self._free else Room()
        try:
            yield room
        finally:
            room.clear()
            with self._lock:
                if len(self._free) < self._kept:
                    self._free.append(room)
