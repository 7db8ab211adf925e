"""A mailbox: many threads bring events, which one thread handles in their order and outside the lock.

That thread lives as long as there are events. Whoever brings one does not handle it, so that handling an event may wait
for the end of any thread that brings events.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

E = TypeVar("E")

log = structlog.get_logger(__name__)


class Mailbox(Generic[E]):
    """`handle` is called for each event, never by two threads at a time."""

    def __init__(self, name: str, handle: Callable[[E], None]) -> None:
        self._name, self._handle = name, handle
        self._events: deque[E] = deque()
        self._busy = False
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return f"<Mailbox {self._name} {len(self._events)} events{' at work' if self._busy else ''}>"

    def post(self, event: E) -> None:
        """Returns at once. Where no thread can be started it raises RuntimeError, and the next event's thread handles
        this one as well."""
        with self._changed:
            self._events.append(event)
            if not self._busy:
                threading.Thread(target=self._run, name=f"events {self._name}", daemon=True).start()
                self._busy = True

    def tell(self, event: E) -> None:
        """Returns when the event has been handled."""
        self.post(event)
        self.wait(lambda: not self._busy)

    def holds(self, event: E) -> bool:
        """Whether this very event is still to be handled. To be asked within a condition of `wait`."""
        return any(each is event for each in self._events)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; it is looked at after each event and each `notify`."""
        with self._changed:
            self._changed.wait_for(condition)

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                self._handle(event)
            except Exception:  # a bug; the events after it must not be lost
                log.exception("an event could not be handled", name=self._name, what=type(event).__name__)

    def _next(self) -> E | None:
        with self._changed:
            self._busy = bool(self._events)
            self._changed.notify_all()
            return self._events.popleft() if self._busy else None
