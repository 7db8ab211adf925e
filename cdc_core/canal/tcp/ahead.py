"""Batches that are encoded before their clients ask for them, while they work on the batch before.

Nothing is claimed or handed out here: only the bytes of what a client's next claim will be are ready. Where the claim
turns out to be another one, they are thrown away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cdc_core.canal.tcp.reply import Reply

_MOST = 2  # at a time: each holds a batch in memory
_STALE_SECONDS = 10.0  # after which another client may have the place

Identity = tuple[str, int]  # destination and client id


@dataclass(slots=True)
class _Work:
    """`of` says what the reply is made of."""

    began: float
    done: threading.Event = field(default_factory=threading.Event)
    of: object = None
    reply: Reply | None = None


class Ahead:
    """Safe from any thread. `most`: how many at a time."""

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._most, self._clock = most, clock
        self._works: dict[Identity, _Work] = {}

    def __repr__(self) -> str:
        return f"<Ahead {len(self._works)}>"

    def make(self, identity: Identity, made: Callable[[], tuple[object, Reply] | None]) -> None:
        """Keeps what `made` returns for the client, if there is a place: what it is made of, and the reply."""
        work = self._place(identity)
        if work is None:
            return
        try:
            if found := made():
                work.of, work.reply = found
        finally:
            work.done.set()

    def _place(self, identity: Identity) -> _Work | None:
        """The place for a reply; None where there is one already, or too many are under way or wait."""
        work = _Work(self._clock())
        with self._lock:
            over = [one for one, kept in self._works.items() if self._is_over(kept, work.began)]
            gone = [self._works.pop(one) for one in over]
            free = identity not in self._works and len(self._works) < self._most
            if free:
                self._works[identity] = work
        for one in gone:
            _close(one)
        return work if free else None

    def _is_over(self, work: _Work, now: float) -> bool:
        return work.done.is_set() and (work.reply is None or now - work.began > _STALE_SECONDS)

    def take(self, identity: Identity, of: object) -> Reply | None:
        """The client's reply if it is made of this; waits for one that is under way. Any other is thrown away."""
        with self._lock:
            work = self._works.pop(identity, None)
        if work is None:
            return None
        work.done.wait()
        if work.reply is not None and work.of == of:
            return work.reply
        _close(work)
        return None

    def drop(self, identity: Identity) -> None:
        """The client has left."""
        self.take(identity, None)


def _close(work: _Work) -> None:
    if work.reply is not None:
        work.reply.close()
