"""Limits that protect the source, and this process's memory, while rows are read; and the pace that they set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_core.errors import ConfigError

_LEAST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """`rows_per_second` of all connections together, None without a limit; `connections` at once; `batch_bytes` of
    packets that one connection keeps, to which a row that is larger adds its own size.

    Raises ConfigError for a limit that would let nothing through.
    """

    rows_per_second: float | None = None
    connections: int = 4
    batch_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        for name, value, least in (
            ("rows_per_second", self.rows_per_second, 1),
            ("connections", self.connections, 1),
            ("batch_bytes", self.batch_bytes, _LEAST_BYTES),
        ):
            if value is not None and not value >= least:
                hint = f"Give {name} at least {least}" + (", or none." if name == "rows_per_second" else ".")
                raise ConfigError(f"{name} is {value:g}", place="the limits of a snapshot", hint=hint)

    def shares(self, chunks: int) -> int:
        """How many connections read so many chunks at once: none has less than a row a second."""
        rate = self.connections if self.rows_per_second is None else self.rows_per_second
        return max(1, int(min(self.connections, chunks, rate)))

    def share(self, connections: int) -> Limits:
        """The limits of each of so many connections, as many as `shares` says."""
        rate = self.rows_per_second
        return replace(self, rows_per_second=None if rate is None else rate / connections, connections=1)


class RateLimit:
    """Lets so many rows pass in a second, without a burst after a pause; None: any number."""

    def __init__(
        self,
        rows_per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = rows_per_second, clock, sleep
        self._last = clock()

    @property
    def rows(self) -> float:
        """Returns the most rows that may pass at a time: the rows of a second."""
        return float("inf") if self._rate is None else max(1.0, self._rate)

    def passed(self, rows: int) -> None:
        """Waits until so many rows may have passed since the call before."""
        if self._rate is None:
            return
        due, now = self._last + rows / self._rate, self._clock()
        if due > now:
            self._sleep(due - now)
        self._last = max(due, now)
