"""Keeps a dump running: connects, checks the server, asks where to resume, hands blocks on, connects again.

Promises: blocks come in order and without gaps from the position of `resume`, also after a lost connection (the
beginning of a transaction may then come again); a silent server is noticed after three heartbeats; `run` raises what
another attempt cannot mend. Does not filter, decode, or remember positions.
"""

from __future__ import annotations

import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pymysql

from cdc_core.binlog.block import Block
from cdc_core.contract.stages import DECODE, NETWORK, QUIET
from cdc_core.errors import SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.retry import pause_after
from cdc_core.source.checks import ServerInfo, check_server
from cdc_core.source.connection import Connection, connect, source_error
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.dump_socket import AGAIN, MISSED, receive
from cdc_core.source.following import Following, Overtaken, Sharing
from cdc_core.source.framing import Framer
from cdc_core.source.logged import Captured
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.continuity import complete_from

_FIRST_DELAY, _LAST_DELAY = 0.25, 30.0  # seconds between attempts
_LASTING = 5.0  # seconds after which a connection is one that lasts, if it has outlasted the delay before it
_LEAST_PATIENCE = 1.0  # seconds of a server's silence
_GATHER, _FEW = 0.01, 1 << 16  # seconds for which at most so many bytes wait to become one block
_LATER = 5.0  # seconds for which events without captured rows may wait at another dump's connection
_RANDOM = secrets.SystemRandom()


@dataclass(slots=True)
class DumpStatus:
    """What other threads may read of a running dump. Times are by the dump's clock."""

    connected: bool = False
    reconnects: int = 0
    received_bytes: int = 0
    last_received: float = 0.0  # of any byte, heartbeats included
    last_block: float = 0.0
    heartbeats: int = 0
    trouble: SourceUnavailable | None = None  # why the last connection was lost; None while connected


class Dump:
    """`on_connect` is called with each connection, before `resume`; `on_reset`, with the journal's name, before the
    first block of each connection and of each journal; `on_lost` when a connection broke or could not be made, with the
    seconds until the next attempt. `on_block` may block for as long as it likes. With `sharing` a dump that has
    caught up goes on by the connection of another one, as long as that lasts. `enter` is called with each stage of
    `contract.stages` that the dump is in from then on, None when it ends; and with the moment, if that is not now."""

    def __init__(
        self,
        settings: SourceSettings,
        *,
        on_block: Callable[[Block], None],
        captured: Captured = lambda _database, _table: True,
        on_connect: Callable[[ServerInfo], None] = lambda _: None,
        on_reset: Callable[[str], None] = lambda _: None,
        on_lost: Callable[[SourceUnavailable, float], None] = lambda _error, _seconds: None,
        sharing: Sharing | None = None,
        enter: Callable[[str | None, float | None], None] = lambda _stage, _at: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self.settings = settings.identified()
        self.status = DumpStatus()
        self._on_block, self._on_connect, self._on_reset = on_block, on_connect, on_reset
        self._on_lost, self._captured = on_lost, captured
        self._sharing, self._enter = sharing, enter
        self._last: Block | None = None  # of the present connection; kept only for `sharing`
        self._following: Following | None = None
        self._clock, self._sleep, self._jitter = clock, sleep, jitter
        self._failures, self._delayed = 0, 0.0  # how many in a row, and the seconds after the last one
        self._since = 0.0  # when the connection was made
        self._journal = ""
        self._sock: socket.socket | None = None
        self._flushed = (0.0, 0)  # when all that had come was handed on, and how many bytes that were

    def __repr__(self) -> str:
        state = "connected" if self.status.connected else "away"
        return f"<Dump {self.settings.account} {state} reconnects={self.status.reconnects}>"

    def run(self, resume: Callable[[Connection], EntryPosition], stop: threading.Event) -> None:
        """Runs until `stop`, or an error other than SourceUnavailable. `resume` returns where a connection starts."""
        try:
            self._run(resume, stop)
        finally:
            self._enter(None, None)
            if self._sharing:
                self._sharing.leave()

    def _run(self, resume: Callable[[Connection], EntryPosition], stop: threading.Event) -> None:
        while not stop.is_set():
            self._enter(NETWORK, None)
            try:
                self._connection(resume, stop)
            except SourceUnavailable as error:
                if stop.is_set():
                    return
                self._enter(NETWORK, None)
                delay = self._delay()
                self._on_lost(error, delay)
                self.status.connected, self.status.trouble = False, error
                self.status.reconnects += 1
                (self._sleep or stop.wait)(delay)
            finally:
                self.status.connected = False

    def wake(self) -> None:
        """Called from another thread after `stop` was set: ends the wait for a quiet source."""
        sock = self._sock
        if sock is not None:
            with suppress(OSError):  # gone by now
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # below TLS, which belongs to the other thread
        self.look()

    def look(self) -> None:
        """Called from another thread: what waits at the connection of another dump comes now."""
        following = self._following
        if following is not None:
            following.wake()

    def _delay(self) -> float:
        """Seconds until the next attempt: doubled by each failure in a row, with jitter to keep destinations apart."""
        self._failures += 1
        longest = pause_after(self._failures, _FIRST_DELAY, _LAST_DELAY)
        self._delayed = longest * (0.5 + 0.5 * self._jitter())
        return self._delayed

    def _connection(self, resume: Callable[[Connection], EntryPosition], stop: threading.Event) -> None:
        conn = connect(self.settings)
        following = self._last = None
        try:
            framer = self._begin(conn, resume)
            self.status.connected, self.status.trouble = True, None
            self._since = self._clock()
            self._journal = framer.journal_name
            self._on_reset(self._journal)
            sock: socket.socket = conn._sock  # type: ignore[attr-defined]
            self._sock = sock
            following = self._stream(sock, framer, stop)
        finally:
            self._sock = None
            conn._force_close()  # type: ignore[attr-defined]
        if following is not None:
            self._follow(following, stop)

    def _begin(self, conn: Connection, resume: Callable[[Connection], EntryPosition]) -> Framer:
        try:
            info = check_server(conn, self.settings, self._captured)
            self._on_connect(info)
            start = resume(conn)
            if self._sharing:
                self._sharing.connected(info, complete_from(conn, self.settings, start))
            return begin_dump(conn, self.settings, info, start)
        except pymysql.err.MySQLError as error:
            raise source_error(error, self.settings) from error

    def _stream(self, sock: socket.socket, framer: Framer, stop: threading.Event) -> Following | None:
        """Until `stop`, or until there is another connection to go on by."""
        sock.setblocking(False)
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        patience = max(MISSED * self.settings.heartbeat_seconds, _LEAST_PATIENCE)
        at: float | None
        at = heard = self._clock()
        while not stop.is_set():
            self._enter(NETWORK, at)
            at = None
            count = self._receive(sock, framer)
            if not count and (pause := self._pause()) > 0:
                self._enter(QUIET, None)
                stop.wait(pause)
                continue
            self._enter(DECODE, self.status.last_received if count else None)
            if self._hand_on(framer, flush=count == 0) or count:
                at = heard = self._clock()  # after `on_block`, whose time is not the server's silence
            elif self._clock() - heard > patience:
                raise SourceUnavailable(
                    f"no byte for {patience:g} s, three heartbeats", place=self.settings.address, hint=AGAIN
                )
            if not count:
                if self._sharing and self._last and (following := self._sharing.join(self._last)):
                    return following
                self._enter(QUIET, at)
                poll.poll(max(0.0, heard + patience - self._clock()) * 1000 + 1)
                at = None
        return None

    def _follow(self, following: Following, stop: threading.Event) -> None:
        """Goes on by another dump's connection until `stop`, or until it is overtaken."""
        self._following = following
        try:
            while not stop.is_set():
                self._enter(QUIET, None)
                for block in following.blocks(_LATER):
                    self._enter(DECODE, None)
                    if stop.is_set():
                        return
                    self._check_next(block)
                    self._pass_on(block)
                    self.status.received_bytes += block.data.nbytes
                    self.status.last_block = self._clock()
                self.status.last_received = following.heard()
                if self._lasts():
                    self._failures = 0
        except Overtaken:
            assert self._sharing is not None
            self._sharing.overtaken()
        finally:
            self._following = None
            following.leave()

    def _check_next(self, block: Block) -> None:
        last = self._last
        assert last is not None
        if block.journal_name == last.journal_name and block.start != last.end:
            message = f"the shared connection has {block.journal_name}:{block.start} after {last.end}"
            raise SourceUnavailable(message, place=self.settings.address, hint=AGAIN)

    def _pass_on(self, block: Block) -> None:
        if block.journal_name != self._journal:
            self._journal = block.journal_name
            self._on_reset(self._journal)
        self._on_block(block)
        if self._sharing:
            self._last = block

    def _pause(self) -> float:
        """How long more bytes are waited for. Each block has its price, and a busy server sends small transactions one
        by one. After a silence the first bytes go on at once."""
        flushed, received = self._flushed
        few = 0 < self.status.received_bytes - received < _FEW
        return flushed + _GATHER - self._clock() if few else 0.0

    def _receive(self, sock: socket.socket, framer: Framer) -> int:
        """The number of bytes received; 0 when the socket has none for now."""
        try:
            count = receive(sock, framer, self.settings)
        except (BlockingIOError, ssl.SSLWantReadError):
            return 0
        self.status.received_bytes += count
        self.status.last_received = self._clock()
        return count

    def _hand_on(self, framer: Framer, *, flush: bool) -> bool:
        """Hands the framer's blocks to `on_block`. Whether there were any."""
        beats, any_block = framer.heartbeats, False
        for block in framer.blocks(flush=flush):
            self._pass_on(block)
            any_block = True
        if flush:
            self._flushed = (self._clock(), self.status.received_bytes)
        if any_block:
            self.status.last_block = self._clock()
        self.status.heartbeats += framer.heartbeats - beats
        if (any_block or framer.heartbeats > beats) and self._lasts():
            self._failures = 0
        return any_block

    def _lasts(self) -> bool:
        """Whether the connection has brought bytes for so long that the failures before it are forgotten. A server may
        send a block and break each time."""
        return self.status.last_received - self._since > max(self._delayed, _LASTING)
