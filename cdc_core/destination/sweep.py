"""Retires the table definitions that nothing needs any more, so that memory and disk do not grow with each ALTER.

Needed are those of the events in the log, in memory and on disk, and so of every claim and of every rewind within it.
What a rewind reads again from the source gets its definitions from the schema history again. The thread that gives
numbers to definitions does this between two blocks: then no event is on its way to the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from cdc_core.schema.registry import SchemaRegistry

_LEAST = 1000  # definitions that may be held without a look
_SECONDS = 60.0  # between two looks

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Sweep:
    """`in_use` gives the numbers that the log has. `forget` drops what the annotator knows by number, and says whether
    it could: not within a statement. A definition goes when two looks find it unused, for a reader that has just
    begun. `clock` is in seconds."""

    registry: SchemaRegistry
    in_use: Callable[[], set[int]]
    forget: Callable[[], bool]
    least: int = _LEAST
    clock: Callable[[], float] = time.monotonic
    _unused: set[int] = field(default_factory=set)
    _due: int = 0
    _looked: float | None = None

    def look(self) -> None:
        """Cheap where nothing is due. Raises StoreDamaged."""
        if self.registry.held < max(self._due, self.least):
            return
        now = self.clock()
        if (self._looked is not None and now - self._looked < _SECONDS) or not self.forget():
            return
        self._looked = now
        unused = self.registry.numbers() - self.in_use()
        gone, self._unused = unused & self._unused, unused
        self.registry.retire(gone)
        if gone or not unused:
            self._due = 2 * self.registry.held
            log.info("table definitions retired", count=len(gone), held=self.registry.held)
