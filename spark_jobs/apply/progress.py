"""What of a batch is done, for whoever waits for it: the threads of the batch write it, another one reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SHOWN = 3


class Progress:
    """Statements followed and tables taken, of how many, and what is under way. A run has one for all its batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statements = self._tables = (0, 0)
        self._under_way: list[str] = []

    def __str__(self) -> str:
        with self._lock:
            counts = ((self._statements, "statements followed"), (self._tables, "tables taken"))
            done = [f"{number:,} of {of:,} {what}" for (number, of), what in counts if of]
            more = len(self._under_way) - _SHOWN
            names = ", ".join(self._under_way[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
            return ", ".join(done) + (f"; under way: {names}" if names else "")

    def begin(self, statements: int, tables: int) -> None:
        """Another batch, of so many statements and tables."""
        with self._lock:
            self._statements, self._tables, self._under_way = (0, statements), (0, tables), []

    @contextmanager
    def statement(self, tables: list[str]) -> Iterator[None]:
        """A statement on these tables is followed meanwhile."""
        what = f"a statement on {', '.join(tables[:_SHOWN])}" if tables else "a statement"
        with self._working(what):
            yield
        with self._lock:
            self._statements = (self._statements[0] + 1, self._statements[1])

    @contextmanager
    def table(self, name: str) -> Iterator[None]:
        """The table's changes are applied meanwhile."""
        with self._working(name):
            yield
        with self._lock:
            self._tables = (self._tables[0] + 1, self._tables[1])

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        with self._lock:
            self._under_way.append(what)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):  # of a batch that failed: another one has begun
                self._under_way.remove(what)
