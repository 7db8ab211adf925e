"""Reused memory for replies: fresh pages cost more than writing to them."""

from __future__ import annotations

import threading

import numpy as np

from cdc_core.compiled.kernel import Bytes

_KEPT = 24 << 20  # bytes, all together
_STEP = 1 << 20  # buffers are multiples of it, so that one fits the next reply as well


class Buffers:
    """Keeps a few buffers that nobody uses. Safe from any thread."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._lock = threading.Lock()
        self._left = kept
        self._free: list[Bytes] = []

    def __repr__(self) -> str:
        return f"<Buffers {len(self._free)} free>"

    def take(self, size: int) -> Bytes:
        """A buffer of at least so many bytes, of any content."""
        with self._lock:
            fitting = [at for at, one in enumerate(self._free) if size <= len(one) <= 2 * size + _STEP]
            if fitting:
                found = self._free.pop(min(fitting, key=lambda at: len(self._free[at])))
                self._left += len(found)
                return found
        return np.empty(-(-size // _STEP) * _STEP if size >= _STEP else size, np.uint8)

    def give(self, buffer: Bytes) -> None:
        """Takes back a buffer that nothing refers to any more."""
        with self._lock:
            if _STEP <= len(buffer) <= self._left:
                self._left -= len(buffer)
                self._free.append(buffer)
