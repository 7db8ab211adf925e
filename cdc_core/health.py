"""How a destination is: the error that it last stopped at, since when, and how long to wait before trying again.

An error of the dump stays until there is progress behind it; what clients run into (rows that cannot be read, a cursor
that cannot be written) stays until the same goes well. Knows neither threads nor the source; told by `instance`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cdc_core.errors import DecodeError, SchemaError, SluiceError
from cdc_core.source.dump import DumpStatus

_PROVEN_SECONDS = 3.0  # a connection that lived so long is over the error before it


class Health:
    """`clock` is in epoch seconds: `since` is shown to people. `pauses`: the shortest and the longest."""

    def __init__(self, clock: Callable[[], float], pauses: tuple[float, float]) -> None:
        self.parse_errors = 0
        self._error: dict[str, Any] | None = None
        self._clock = clock
        self._pauses = pauses
        self._pause = pauses[0]
        self._connected_at: float | None = None
        self._others: dict[tuple[int, str], tuple[dict[str, Any], int]] = {}
        self._lock = threading.Lock()  # of `_others`, which any caller may change
        self._lost: dict[str, Any] | None = None

    @property
    def error(self) -> dict[str, Any] | None:
        """Why the dump ended. A connection that lives is over it, also when nothing is written at the source."""
        return None if self._proven() else self._error

    def _proven(self) -> bool:
        return self._connected_at is not None and self._clock() - self._connected_at > _PROVEN_SECONDS

    def failed(self, error: Exception) -> float:
        """Notes why the dump ended. Returns how many seconds to wait."""
        if self._proven():
            self.progressed()
        self._error = self._dated(_parts(error), self._error)
        self.parse_errors += isinstance(error, DecodeError | SchemaError)
        self._connected_at = None
        pause, self._pause = self._pause, min(self._pause * 2, self._pauses[1])
        return pause

    def connected(self) -> None:
        self._connected_at, self._lost = self._clock(), None

    def lost(self, error: SluiceError) -> bool:
        """Notes why the source is away. True when this is news."""
        before, self._lost = self._lost, self._dated(error.as_dict(), self._lost)
        return self._lost != before

    def progressed(self) -> None:
        """Something came through: what failed before is over."""
        self._error, self._pause = None, self._pauses[0]

    def noted(self, client_id: int, what: str, error: Exception | None, batch_id: int = 0) -> bool:
        """Notes how something that a client asked for went, beside the dump. True when an error is news."""
        with self._lock:
            before, _ = self._others.pop((client_id, what), (None, 0))
            if error is None:
                return False
            told = self._dated(_parts(error), before)
            self._others[client_id, what] = told, batch_id
            if told != before:
                self.parse_errors += isinstance(error, DecodeError | SchemaError)
            return told != before

    def acked(self, client_id: int, batch_id: int) -> None:
        """What was wrong with the client's batches up to this one is over."""
        with self._lock:
            kept = {w: n for w, n in self._others.items() if w[0] != client_id or n[1] > batch_id}
            self._others = kept

    def state(self, dump: DumpStatus) -> str:
        if self.error is not None or (dump.trouble and not dump.connected):
            return "failed"
        return "running" if dump.connected else "starting"

    def error_of(self, dump: DumpStatus) -> dict[str, Any] | None:
        """What keeps the destination from working just now."""
        if self.error is None and dump.trouble and not dump.connected and self._lost:
            return self._lost
        return self.error or next((told for told, _ in list(self._others.values())), None)

    def _dated(self, parts: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
        same = before is not None and all(before[key] == parts[key] for key in parts)
        return parts | {"since": before["since"] if before is not None and same else self._clock()}


def _parts(error: Exception) -> dict[str, str]:
    if isinstance(error, SluiceError):
        return error.as_dict()
    message, hint = str(error) or "an unexpected error", "Report this with the service's log: a bug."
    return {"error": type(error).__name__, "message": message, "place": "", "hint": hint}
