"""The shared connections of a process: one for each server, account and settings that two destinations have.

A destination connects by itself, checks its server and finds its start. When it has caught up it joins the connection
of its server at the exact event that it has read last; the second one begins that connection.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from cdc_core.binlog.block import Block
from cdc_core.config.models import InstanceConfig
from cdc_core.destination.shared.channel import HELD, Channel, Follower
from cdc_core.destination.shared.pace import enough, is_beginning
from cdc_core.destination.shared.stream import SharedDump, identity_of
from cdc_core.position import EntryPosition
from cdc_core.retry import Retry
from cdc_core.source.checks import ServerInfo
from cdc_core.source.logged import Captured
from cdc_core.source.settings import SourceSettings

_BROKEN = 5.0, 300.0  # seconds until a connection that broke is made again
_OVERTAKEN = 30.0, 600.0  # seconds until a destination that was too slow joins again

Key = tuple[SourceSettings, str]  # without what differs between destinations, and the server's own name

log = structlog.get_logger(__name__)


class Pool:
    """`pauses` as of `Retry`, after a connection broke. `held`: bytes that each connection holds for slow followers."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        pauses: tuple[float, float] = _BROKEN,
        held: int = HELD,
    ) -> None:
        self._clock, self._pauses, self._held = clock, pauses, held
        self._lock = threading.Lock()  # never held while a connection's own lock is waited for, nor the other way round
        self._members: Counter[Key] = Counter()
        self._streams: dict[Key, SharedDump] = {}
        self._retries: dict[Key, Retry] = {}

    def __repr__(self) -> str:
        return f"<Pool members={self._members.total()} streams={len(self._streams)}>"

    def enter(self, key: Key) -> None:
        with self._lock:
            self._members[key] += 1

    def leave(self, key: Key) -> None:
        """The last one ends the connection."""
        with self._lock:
            self._members[key] -= 1
            if self._members[key]:
                return
            del self._members[key]
            self._retries.pop(key, None)
            stream = self._streams.pop(key, None)
        if stream is not None:
            stream.stop()

    def channel(self, key: Key, last: Block) -> Channel | None:
        """The connection of a key, where there is one. Else one may be begun with the block, to be asked for again."""
        with self._lock:
            stream = self._streams.get(key)
            if stream is not None:
                return stream.channel
            retry = self._retries.setdefault(key, Retry(self._pauses))
            if enough(self._members[key]) and is_beginning(last) and retry.ready(self._clock()):
                self._begin(key, EntryPosition(last.journal_name, last.start))
            return None

    def _begin(self, key: Key, start: EntryPosition) -> None:
        settings, identity = key
        stream = self._streams[key] = SharedDump(settings, identity, start, partial(self._ended, key), self._held)
        log.info("shared connection begins", source=settings.address, position=str(start))
        stream.start()

    def _ended(self, key: Key, stream: SharedDump, failed: bool, seconds: float) -> None:
        with self._lock:
            if self._streams.get(key) is stream:
                del self._streams[key]
                if failed:
                    self._retries.setdefault(key, Retry(self._pauses)).failed(self._clock(), seconds)


POOL = Pool()  # the process's


def make_member(pool: Pool, config: InstanceConfig, settings: SourceSettings, captured: Captured) -> Member | None:
    """None for a destination that shares no connection."""
    return Member(pool, config.destination, settings, captured) if config.dump_shared else None


class Member:
    """One destination among those of its server, as `source.following.Sharing` has it. `captured` is its filter,
    `pauses` as of `Retry`, after it was too slow."""

    def __init__(
        self,
        pool: Pool,
        destination: str,
        settings: SourceSettings,
        captured: Captured,
        clock: Callable[[], float] = time.monotonic,
        pauses: tuple[float, float] = _OVERTAKEN,
    ) -> None:
        self._pool, self._destination, self._captured, self._clock = pool, destination, captured, clock
        self._settings = replace(settings, slave_id=0, identity="", by_gtid=False)
        self._key: Key | None = None
        self._complete: EntryPosition | None = None
        self._retry = Retry(pauses)
        self._joined = 0.0

    def __repr__(self) -> str:
        return f"<Member {self._destination} {self._settings.account}>"

    def connected(self, server: ServerInfo, complete: EntryPosition | None) -> None:
        self._complete = complete
        key = self._settings, identity_of(server)
        if key != self._key:
            self.leave()
            self._key = key
            self._pool.enter(key)

    def join(self, last: Block) -> Follower | None:
        if self._key is None or not self._retry.ready(self._clock()) or not self._is_complete(last):
            return None
        channel = self._pool.channel(self._key, last)
        follower = channel.follow(last, self._captured) if channel is not None else None
        if follower is not None:
            self._joined = self._clock()
        return follower

    def _is_complete(self, last: Block) -> bool:
        """A shared connection has all events. Whether all after this block are the destination's."""
        return self._complete is not None and EntryPosition(last.journal_name, last.end) >= self._complete

    def overtaken(self) -> None:
        log.info("too slow for the shared connection", destination=self._destination)
        self._retry.failed(self._clock(), self._clock() - self._joined)

    def leave(self) -> None:
        key, self._key = self._key, None
        if key is not None:
            self._pool.leave(key)
