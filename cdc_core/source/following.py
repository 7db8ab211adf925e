"""The protocols by which a dump continues over another dump's connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cdc_core.binlog.block import Block
from cdc_core.position import EntryPosition
from cdc_core.source.checks import ServerInfo


class Overtaken(Exception):
    """The other connection has gone on too far: what comes next for this dump is not held any more."""


class Following(Protocol):
    """The events of another connection to the same server, from where this dump is on, without a gap."""

    def blocks(self, seconds: float) -> Iterator[Block]:
        """The next blocks, for this dump alone; none when nothing came for so long. Events without rows of captured
        tables may wait as long. Raises Overtaken, and SourceUnavailable when the connection is over."""

    def heard(self) -> float:
        """When the connection received its last byte, by the monotonic clock."""

    def wake(self) -> None:
        """Ends the wait. Any thread may call it."""

    def leave(self) -> None:
        """The dump takes nothing more."""


class Sharing(Protocol):
    """One dump among those that may share a connection. All calls come from the dump's thread."""

    def connected(self, server: ServerInfo, complete: EntryPosition | None) -> None:
        """The dump has a connection of its own to this server. From `complete` on it gets all that the server writes;
        None: that is not known."""

    def join(self, last: Block) -> Following | None:
        """Where to go on after the last block that the dump's own connection has brought, while nothing more is there.
        None: by its own connection."""

    def overtaken(self) -> None:
        """The dump was too slow for what it followed."""

    def leave(self) -> None:
        """The dump ends, or has failed."""
