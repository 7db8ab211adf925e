"""The destinations that follow a shared connection, and what it holds for them. No thread, no socket.

Promises: a follower gets every event after the one that it joined at, once, in order and without a gap, or an error
that sends it to a connection of its own; no follower holds up the connection or another follower.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from cdc_core.binlog.block import Block
from cdc_core.destination.shared.backlog import RUN, Backlog, Piece, Place, owned
from cdc_core.destination.shared.interest import Interest
from cdc_core.errors import SluiceError, SourceUnavailable
from cdc_core.source.dump_socket import AGAIN
from cdc_core.source.logged import Captured

HELD = 16 << 20  # bytes of blocks, for followers that are slower
_KEPT = 1 << 20  # of them at most, for destinations that are about to join
_TAKE = 1 << 20  # bytes that a follower takes at a time


class Channel:
    """Of the server at `address`; holds at most `held` bytes. `heard` is when the connection received its last byte.
    `run` as of `Backlog`."""

    def __init__(self, address: str, block_bytes: int, held: int = HELD, run: int = RUN) -> None:
        self.address, self.block_bytes = address, block_bytes
        self.heard = 0.0
        self._backlog, self._interest = Backlog(held, run), Interest()
        self._wake = max(held // 16, 1)  # bytes after which all followers look
        self._lock = threading.Lock()
        self._followers: dict[int, Follower] = {}
        self._numbers = 0
        self._over = False
        self._why: SluiceError | None = None

    def __repr__(self) -> str:
        return f"<Channel {self.address} followers={len(self._followers)} {self._backlog!r}>"

    @property
    def used(self) -> bool:
        """Whether anybody follows."""
        return bool(self._followers)

    # -- the connection's side

    def put(self, block: Block) -> None:
        """The next block. Nobody may write into its bytes any more."""
        block.data.flags.writeable = False
        with self._lock:
            before = self._backlog.received // self._wake
            woken = wanted = frozenset(self._interest.of(block))
            self._backlog.put(block, wanted)
            if self._backlog.received // self._wake > before:
                woken = frozenset(self._followers)
                furthest_behind = min((one.place for one in self._followers.values()), default=self._backlog.end)
                self._backlog.free(furthest_behind, min(_KEPT, self._wake))
            for number in woken:
                self._followers[number].wake()

    def end(self, why: SluiceError | None) -> None:
        """Nothing comes any more."""
        with self._lock:
            self._over, self._why = True, why
            for follower in self._followers.values():
                follower.wake()

    # -- the followers' side

    def follow(self, last: Block, captured: Captured) -> Follower | None:
        """A follower from the end of a block of another connection on; None while that end is not here."""
        with self._lock:
            place = None if self._over else self._backlog.find(last)
            if place is None:
                return None
            self._numbers += 1
            follower = self._followers[self._numbers] = Follower(self, self._numbers, place)
            self._interest.add(self._numbers, captured)
            return follower

    def take(self, follower: Follower) -> list[Piece]:
        """What comes next for a follower, shared with the others. Raises Overtaken, and SourceUnavailable once all has
        been taken from a connection that is over."""
        with self._lock:
            found, follower.place = self._backlog.take(follower.place, _TAKE, follower.number)
            if follower.place < self._backlog.end:
                follower.wake()
            if not found and self._over:
                message = f"the shared connection is over: {self._why.message if self._why else 'it was ended'}"
                raise SourceUnavailable(message, place=self.address, hint=AGAIN)
            return found

    def drop(self, number: int) -> None:
        with self._lock:
            self._interest.remove(number)
            self._followers.pop(number, None)


class Follower:
    """One destination at a shared connection, as `source.following.Following` has it. `place` and `number` are the
    channel's."""

    def __init__(self, channel: Channel, number: int, place: Place) -> None:
        self._channel, self.number, self.place = channel, number, place
        self._woken = threading.Event()
        self._woken.set()  # something may be there already

    def __repr__(self) -> str:
        return f"<Follower {self.number} at {self.place}>"

    @property
    def woken(self) -> bool:
        """Whether the next look comes at once."""
        return self._woken.is_set()

    def blocks(self, seconds: float) -> Iterator[Block]:
        self._woken.wait(seconds)
        self._woken.clear()
        yield from owned(self._channel.take(self), self.number, self._channel.block_bytes)

    def heard(self) -> float:
        return self._channel.heard

    def wake(self) -> None:
        self._woken.set()

    def leave(self) -> None:
        self._channel.drop(self.number)
