"""Counts of clients' calls and answers, by destination, for `/metrics`. All doors of a service share one `Traffic`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

BUCKETS_MS = (2.5, 10.0, 25.0, 100.0)  # as in Canal's dashboards


@dataclass(slots=True)
class CallCounts:
    """One destination's counts. `latency` counts by bucket of BUCKETS_MS; the last bucket has no bound."""

    packets: Counter[str] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)
    nbytes: int = 0
    empty: int = 0
    latency: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_MS) + 1))
    total_ms: float = 0.0

    def copy(self) -> CallCounts:
        return CallCounts(
            self.packets.copy(), self.errors.copy(), self.nbytes, self.empty, list(self.latency), self.total_ms
        )


class Traffic:
    """Counts only the names that `known` accepts: callers choose names, and each would take memory for ever. Safe from
    any thread."""

    def __init__(self, known: Callable[[str], bool] = lambda _: True) -> None:
        self._known = known
        self._lock = threading.Lock()
        self._calls: dict[str, CallCounts] = {}

    def __repr__(self) -> str:
        return f"<Traffic {sum(calls.packets.total() for calls in self._calls.values())} packets>"

    def sent(self, destination: str, packet: str, nbytes: int = 0, *, empty: bool = False) -> None:
        """Counts an answer; `packet` is its type in Canal's protocol."""
        with self._lock:
            calls = self._of(destination)
            calls.packets[packet] += 1
            calls.nbytes += nbytes
            calls.empty += empty

    def failed(self, destination: str, code: int) -> None:
        with self._lock:
            self._of(destination).errors[code] += 1

    def took(self, destination: str, milliseconds: float) -> None:
        bucket = next((at for at, bound in enumerate(BUCKETS_MS) if milliseconds <= bound), len(BUCKETS_MS))
        with self._lock:
            calls = self._of(destination)
            calls.latency[bucket] += 1
            calls.total_ms += milliseconds

    def items(self) -> Iterator[tuple[str, CallCounts]]:
        with self._lock:
            snapshot = {name: calls.copy() for name, calls in self._calls.items()}
        yield from sorted(snapshot.items())

    def _of(self, destination: str) -> CallCounts:
        found = self._calls.get(destination)
        if found is None:
            found = CallCounts()
            if self._known(destination):
                self._calls[destination] = found
        return found
