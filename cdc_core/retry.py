"""When to try again what went wrong: after pauses that each failure doubles. Pure."""

from __future__ import annotations

_MOST_DOUBLINGS = 60  # a longer pause than any: 2.0 ** failures overflows where failures never end


def pause_after(failures: int, first: float, longest: float) -> float:
    """Returns how many seconds to wait after so many failures in a row: `first` after one, doubled by each further one,
    at most `longest`."""
    return min(longest, first * 2.0 ** min(max(failures - 1, 0), _MOST_DOUBLINGS))


class Retry:
    """When to try again: after a pause from `pauses[0]` to `pauses[1]` seconds. What lasted longer than the longest one
    is not held against it."""

    def __init__(self, pauses: tuple[float, float]) -> None:
        self._pauses = pauses
        self._failures = 0
        self._due = 0.0

    def __repr__(self) -> str:
        return f"<Retry failures={self._failures} due={self._due:.1f}>"

    def failed(self, now: float, lasted: float) -> None:
        first, longest = self._pauses
        self._failures = 1 if lasted > longest else self._failures + 1
        self._due = now + pause_after(self._failures, first, longest)

    def ready(self, now: float) -> bool:
        return now >= self._due
