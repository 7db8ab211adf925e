"""The progress of a batch: its threads write it, another thread reports it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

_SHOWN = 3
_STATEMENTS, _TABLES = "statements followed", "tables taken"


class Progress:
    """Statements followed and tables taken, of how many, and what is under way. A run has one for all its batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of = {_STATEMENTS: 0, _TABLES: 0}
        self._done = dict(self._of)
        self._under_way: list[str] = []

    def __str__(self) -> str:
        with self._lock:
            done = [f"{self._done[kind]:,} of {of:,} {kind}" for kind, of in self._of.items() if of]
            more = len(self._under_way) - _SHOWN
            names = ", ".join(self._under_way[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
            return ", ".join(done) + (f"; under way: {names}" if names else "")

    def begin(self, statements: int, tables: int) -> None:
        """Another batch, of so many statements and tables."""
        with self._lock:
            self._of = {_STATEMENTS: statements, _TABLES: tables}
            self._done, self._under_way = dict.fromkeys(self._of, 0), []

    def statement(self, tables: list[str]) -> AbstractContextManager[None]:
        """A statement on these tables is followed while the block runs."""
        return self._working(_STATEMENTS, f"a statement on {', '.join(tables[:_SHOWN])}" if tables else "a statement")

    def table(self, name: str) -> AbstractContextManager[None]:
        """The table's changes are applied while the block runs."""
        return self._working(_TABLES, name)

    @contextmanager
    def _working(self, kind: str, what: str) -> Iterator[None]:
        """`what` is under way while the block runs, and counts as done unless the block raises."""
        with self._lock:
            self._under_way.append(what)
        try:
            yield
            with self._lock:
                self._done[kind] += 1
        finally:
            with self._lock, suppress(ValueError):  # of a batch that failed: another one has begun
                self._under_way.remove(what)
