"""The ring with a lock and with waiting: the source waits for room, clients wait for rows.

Whoever uses the ring, or the session over it, holds `changed`, which is re-entrant. Nobody may do I/O while holding it.
The threads that look after the store wait for `upkeep`, a condition of the same lock: a block without rows, of which a
destination with a quiet schema gets one after the other, wakes them only where they wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from cdc_core.binlog.block import Block
from cdc_core.store.arrival_times import ArrivalTimes
from cdc_core.store.ring import Ring

T = TypeVar("T")

_STOP_CHECK = 1.0  # seconds: a stop event cannot wake a condition, so a waiting put looks at it this often


class Store:
    """`clock` is in seconds and only rises. `arrivals` are the log's, by this clock."""

    def __init__(self, ring: Ring, clock: Callable[[], float] = time.monotonic) -> None:
        self.ring = ring
        self.clock = clock
        self.arrivals = ArrivalTimes()
        self.on_put: Callable[[], None] = lambda: None  # under the lock, after each put, and when one must wait
        lock = threading.RLock()
        self.changed, self.upkeep = threading.Condition(lock), threading.Condition(lock)
        self.closed = False
        self._hurried = self._awaits_empty = False
        self._blocked = 0.0
        self._blocked_since: float | None = None

    def __repr__(self) -> str:
        return f"<Store {self.ring!r}{' blocked' if self._blocked_since is not None else ''}>"

    @property
    def blocked_seconds(self) -> float:
        """How long puts have waited for room so far, the present wait included."""
        since = self._blocked_since
        return self._blocked + (self.clock() - since if since is not None else 0.0)

    def put(self, block: Block, stop: threading.Event, arrived: tuple[float, float] | None = None) -> bool:
        """Waits while the ring is full. False when `stop` was set before there was room. `arrived`: when the block came
        from the source, and when its events had been read, which is now."""
        received, decoded = arrived or (self.clock(),) * 2
        with self.changed:
            before, stored = self.ring.put, decoded
            try:
                while not self.ring.try_put(block):
                    if self.closed or stop.is_set():
                        return False
                    if self._blocked_since is None:
                        self._blocked_since = self.clock()
                        self.on_put()
                        self.changed.notify_all()  # a full ring also serves parts of a transaction
                        self.upkeep.notify_all()
                    self.changed.wait(_STOP_CHECK)
                    stored = self.clock()
            finally:
                self._blocked, self._blocked_since = self.blocked_seconds, None
            put = self.ring.put
            self.arrivals.note(before.sequence, put.sequence, (received, decoded, stored))
            if self.arrivals.too_many:
                self.arrivals.shorten(min((marks.ack.sequence for marks in self.ring.clients.values()), default=0))
            self.on_put()
            self.changed.notify_all()
            if self._awaits_empty or put.rows > before.rows or put.statements > before.statements:
                self.upkeep.notify_all()
            return True

    def wait_for(self, look: Callable[[], T | None], timeout: float, wake: Callable[[], float | None]) -> T | None:
        """The first result of `look` that is not None; None after `timeout` seconds. `look` is called on each change.

        `wake` gives the seconds after which to look again without a change; None for never.
        """
        deadline = self.clock() + timeout
        with self.changed:
            while True:
                found = look()
                left = deadline - self.clock()
                if found is not None or left <= 0 or self.closed:
                    return found
                sooner = wake()
                self.changed.wait(left if sooner is None else max(0.01, min(left, sooner)))

    def wait_unacked(self, timeout: float, empty_at: float) -> bool:
        """Waits until a client has rows to ack, or anything from the moment `empty_at` on. Whether ranges without rows
        are due: from then on, after a `hurry`, while the ring is full, and before rows, which a claim of few bytes does
        not reach otherwise."""
        end = self.clock() + timeout
        with self.changed:
            while True:
                now = self.clock()
                due = self._hurried or self.ring.full or self.ring.unacked_rows or now >= empty_at
                unacked = self.ring.unacked
                if self.closed or (unacked and due) or now >= end:
                    self._hurried = self._hurried and not unacked
                    return due
                self._awaits_empty = due
                self.upkeep.wait((end if due else min(end, empty_at)) - now)
                self._awaits_empty = False

    def hurry(self) -> None:
        """Ranges without rows are due."""
        with self.changed:
            self._hurried = True
            self.upkeep.notify_all()

    def wait_full(self, timeout: float) -> bool:
        """Waits until a put is refused."""
        with self.changed:
            return self.upkeep.wait_for(lambda: self.ring.full or self.closed, timeout)

    def schemas(self) -> set[int]:
        """The numbers of the definitions that the rows of the log have."""
        with self.changed:
            parts = self.ring.log.parts.copy()
        return {number for part in parts.all for number in part.numbers()}

    def close(self) -> None:
        """Ends all waits, also later ones."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
            self.upkeep.notify_all()
