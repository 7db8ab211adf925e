"""A shared connection: the thread that reads it into its channel.

It is one connection to one server: when it breaks it is over, and each follower reconnects as it does from its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from cdc_core.binlog.block import Block
from cdc_core.destination.shared.channel import Channel
from cdc_core.errors import SluiceError, SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.source.checks import ServerInfo
from cdc_core.source.dump import Dump
from cdc_core.source.dump_socket import AGAIN
from cdc_core.source.settings import SourceSettings

_UNUSED = 30.0  # seconds without a follower after which the next block ends it
_JOIN_SECONDS = 5.0
_BUG = "Report this with the service's log: a bug. Destinations read by connections of their own."

log = structlog.get_logger(__name__)


def identity_of(server: ServerInfo) -> str:
    return server.server_uuid or str(server.server_id)


class SharedDump:
    """Reads from `start` on the server that is known as `identity`. `on_end` is called once, in its thread, when it is
    over, with whether it failed and the seconds for which it lasted."""

    def __init__(
        self,
        settings: SourceSettings,
        identity: str,
        start: EntryPosition,
        on_end: Callable[[SharedDump, bool, float], None],
        held: int,
    ) -> None:
        self.channel = Channel(settings.address, settings.block_bytes, held)
        self._identity, self._start, self._on_end = identity, start, on_end
        self._error: SluiceError | None = None
        self._stop = threading.Event()
        self._used = time.monotonic()
        self._dump = Dump(
            replace(settings, slave_id=0, identity="sluice-shared"),
            on_block=self._put,
            captured=lambda _database, _table: False,  # each destination has checked its own tables
            on_connect=self._check,
            on_lost=lambda error, _: self._fail(error),
        )
        self._thread = threading.Thread(target=self._run, name=f"shared {settings.address}", daemon=True)

    def __repr__(self) -> str:
        return f"<SharedDump {self._start} {self.channel!r}>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Its followers get an error that it is over."""
        self._stop.set()
        self._dump.wake()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            self._dump.run(lambda _: self._start, self._stop)
        except SluiceError as error:
            self._fail(error)
        except Exception as error:
            log.exception("shared connection failed", source=self.channel.address)
            self._fail(SluiceError(str(error) or "an unexpected error", place=self.channel.address, hint=_BUG))
        self.channel.end(self._error)
        if self._error is not None:
            log.warning("shared connection over", source=self.channel.address, error=str(self._error))
        self._on_end(self, self._error is not None, time.monotonic() - begun)

    def _fail(self, error: SluiceError) -> None:
        self._error = self._error or error
        self._stop.set()

    def _check(self, server: ServerInfo) -> None:
        if identity_of(server) != self._identity:
            message = f"another server answers: {identity_of(server)} instead of {self._identity}"
            raise SourceUnavailable(message, place=self.channel.address, hint=AGAIN)

    def _put(self, block: Block) -> None:
        now = time.monotonic()
        self.channel.put(block)
        self.channel.heard = self._dump.status.last_received
        if self.channel.used:
            self._used = now
        elif now - self._used > _UNUSED:
            self._stop.set()
