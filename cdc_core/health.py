"""How a destination is: the error that it last stopped at, since when, and how long to wait before trying again.

An error stays until there is progress behind it. Knows neither threads nor the source; told by `instance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cdc_core.errors import DecodeError, SchemaError, SluiceError
from cdc_core.source.dump import DumpStatus

_PROVEN_SECONDS = 3.0  # a connection that lived so long is over the error before it


class Health:
    """`clock` is in epoch seconds: `since` is shown to people. `pauses`: the shortest and the longest."""

    def __init__(self, clock: Callable[[], float], pauses: tuple[float, float]) -> None:
        self.error: dict[str, Any] | None = None
        self.parse_errors = 0
        self._clock = clock
        self._pauses = pauses
        self._pause = pauses[0]
        self._connected_at: float | None = None
        self._tidy_error: dict[str, Any] | None = None
        self._trouble: tuple[str, float] = ("", 0.0)

    def failed(self, error: Exception) -> float:
        """Notes why the dump ended. Returns how many seconds to wait."""
        self.error = self._dated(_parts(error), self.error)
        self.parse_errors += isinstance(error, DecodeError | SchemaError)
        self._connected_at = None
        pause, self._pause = self._pause, min(self._pause * 2, self._pauses[1])
        return pause

    def connected(self) -> None:
        self._connected_at = self._clock()

    def progressed(self) -> None:
        """Something came through: what failed before is over."""
        self.error, self._pause = None, self._pauses[0]

    def tidied(self, error: SluiceError | None) -> bool:
        """Notes whether cursors can be moved. True when this is news."""
        before = self._tidy_error
        self._tidy_error = None if error is None else self._dated(error.as_dict(), before)
        if self._connected_at is not None and self._clock() - self._connected_at > _PROVEN_SECONDS:
            self.progressed()
        return (before is None) != (error is None)

    def state(self, dump: DumpStatus) -> str:
        if self.error is not None or (dump.trouble and not dump.connected):
            return "failed"
        return "running" if dump.connected else "starting"

    def error_of(self, dump: DumpStatus, address: str) -> dict[str, Any] | None:
        """What keeps the destination from working just now."""
        if self.error is None and dump.trouble and not dump.connected:
            if dump.trouble != self._trouble[0]:
                self._trouble = (dump.trouble, self._clock())
            parts = {"error": "SourceUnavailable", "message": dump.trouble, "place": address}
            return parts | {"hint": "It is tried again by itself.", "since": self._trouble[1]}
        return self.error or self._tidy_error

    def _dated(self, parts: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
        same = before is not None and all(before[key] == parts[key] for key in parts)
        return parts | {"since": before["since"] if before is not None and same else self._clock()}


def _parts(error: Exception) -> dict[str, str]:
    if isinstance(error, SluiceError):
        return error.as_dict()
    message, hint = str(error) or "an unexpected error", "Report this with the service's log: a bug."
    return {"error": type(error).__name__, "message": message, "place": "", "hint": hint}
