"""A dump of real servers: everything once and in order, through kills, silence, full rings and large events."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.binlog.block import Block
from cdc_core.errors import DecodeError, PositionError, SourceError, SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.source.checks import ServerInfo, check_server
from cdc_core.source.connection import Connection, connect
from cdc_core.source.dump import _GATHER, Dump
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.framing import Framer
from cdc_core.source.journals import current_end
from cdc_core.source.settings import SourceSettings
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_stream import feed, whole
from tests.support.proxy import Proxy
from tests.support.servers import free_port, kill_dumps, settings_of

pytestmark = pytest.mark.integration

XID = 16


class Reader:
    """A dump in a thread, resumed where its blocks end. `blocks` and `resets` are what came."""

    def __init__(self, settings: SourceSettings, start: EntryPosition, on_block: Callable[[Block], None] | None = None):
        self.blocks: list[Block] = []
        self.servers: list[ServerInfo] = []
        self.resets = 0
        self.standing: float | None = None
        self.looks = 0  # at the clock: some for each time that the dump wakes
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self.next = start
        self._also = on_block
        self.dump = Dump(
            settings,
            on_block=self._take,
            on_connect=self.servers.append,
            on_reset=self._reset,
            clock=self._clock,
            jitter=lambda: 0.0,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.dump.run(lambda _: self.next, self.stop)
        except BaseException as error:
            self.error = error

    def _reset(self, _: str) -> None:
        self.resets += 1

    def stand(self) -> float:
        """Time passes no more for the dump, until `standing` is None. Returns the time at which it stands."""
        self.standing = time.monotonic()
        return self.standing

    def _clock(self) -> float:
        self.looks += 1
        return time.monotonic() if self.standing is None else self.standing

    def _take(self, block: Block) -> None:
        if self._also:
            self._also(block)
        self.blocks.append(block)
        self.next = EntryPosition(block.journal_name, block.end)

    def transactions(self) -> int:
        return sum(int(np.count_nonzero(block.index["type"] == XID)) for block in self.blocks)

    def reach(self, position: tuple[str, int], timeout: float = 60) -> None:
        wait(lambda: self.error is not None or self.next >= EntryPosition(*position), timeout)
        if self.error:
            raise self.error

    def end(self) -> float:
        started = time.monotonic()
        self.stop.set()
        self.dump.wake()
        self.thread.join(60)
        assert not self.thread.is_alive()
        return time.monotonic() - started


def wait(ready: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


@contextmanager
def reading(server: MySqlServer, **changes: object) -> Iterator[Reader]:
    """A reader from the server's current end, connected."""
    on_block = changes.pop("on_block", None)
    options: dict[str, object] = {"heartbeat_seconds": 2.0, **changes}
    reader = Reader(settings_of(server, **options), EntryPosition(*server.position()), on_block)  # type: ignore[arg-type]
    wait(lambda: reader.dump.status.connected or reader.error is not None)
    try:
        yield reader
    finally:
        reader.end()


@contextmanager
def table(server: MySqlServer) -> Iterator[str]:
    with server.database() as database:
        server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY AUTO_INCREMENT, body LONGBLOB)")
        yield f"{database}.t"


def insert(server: MySqlServer, name: str, count: int = 1, body: str = "'x'") -> None:
    server.execute(*[f"INSERT INTO {name} (body) VALUES ({body})"] * count)


def contiguous(blocks: list[Block]) -> bool:
    return all(a.end == b.start for a, b in itertools.pairwise(blocks) if a.journal_name == b.journal_name)


@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_transactions_over_a_rotation_and_a_kill(name: str, request: pytest.FixtureRequest) -> None:
    """Each comes once, in order and without gaps, with a reset for each journal and connection."""
    server: MySqlServer = request.getfixturevalue(name)
    with table(server) as t, reading(server) as reader:
        insert(server, t, 3)
        server.execute("FLUSH BINARY LOGS")
        insert(server, t, 2)
        reader.reach(server.position())
        assert (reader.transactions(), reader.resets) == (5, 2)
        kill_dumps(server)
        insert(server, t, 4)
        reader.reach(server.position())
        assert (reader.transactions(), reader.dump.status.reconnects) == (9, 1)
        assert contiguous(reader.blocks)
        assert len(reader.servers) == 2


@pytest.mark.parametrize("mode", ["DISABLED", "REQUIRED"])
def test_a_large_event(mysql8: MySqlServer, mode: str) -> None:
    """A row of 20 MB is one event in one block, over TLS too."""
    with table(mysql8) as t, reading(mysql8, ssl_mode=mode) as reader:
        insert(mysql8, t, body="REPEAT('ab', 10000000)")
        insert(mysql8, t)
        reader.reach(mysql8.position())
        largest = max(reader.blocks, key=lambda block: block.nbytes)
        assert (len(largest.index), reader.transactions()) == (1, 2)
        assert largest.data[-20_000_000:].tobytes() == b"ab" * 10_000_000


@pytest.mark.parametrize("name", ["mysql8", "mysql9", "mariadb"])
def test_without_checksums(name: str, request: pytest.FixtureRequest) -> None:
    """A journal without checksums may follow one with them in one connection, and the other way round."""
    server: MySqlServer = request.getfixturevalue(name)
    with table(server) as t, reading(server) as reader:
        insert(server, t)
        server.execute("SET GLOBAL binlog_checksum = 'NONE'")
        try:
            insert(server, t, 2)
            reader.reach(server.position())
            with reading(server) as other:
                insert(server, t)
                other.reach(server.position())
                server.execute("SET GLOBAL binlog_checksum = 'CRC32'")
                insert(server, t)
                reader.reach(server.position())
                other.reach(server.position())
                assert (other.transactions(), other.servers[0].checksum) == (2, "NONE")
        finally:
            server.execute("SET GLOBAL binlog_checksum = 'CRC32'")
        assert (reader.transactions(), reader.servers[0].checksum) == (5, "CRC32")


def test_an_idle_dump_costs_nothing(mysql8: MySqlServer) -> None:
    """It wakes only for heartbeats, loses no connection, and ends at once."""
    with reading(mysql8, heartbeat_seconds=1.0) as reader:
        status = reader.dump.status
        wait(lambda: status.heartbeats >= 2)
        looks, heartbeats = reader.looks, status.heartbeats
        wait(lambda: status.heartbeats >= heartbeats + 4)
        assert reader.looks - looks <= 10 * (status.heartbeats - heartbeats + 1)
        assert status.reconnects == 0
        reader.end()


def test_small_transactions_wait_for_each_other(mysql8: MySqlServer) -> None:
    """While the clock stands, those that come are gathered; when it goes on, they come as one block. 64 KB do not
    wait."""
    with table(mysql8) as t, reading(mysql8) as reader:
        stood = reader.stand()
        reader.reach(mysql8.position())
        insert(mysql8, t)
        wait(lambda: reader.dump._flushed[0] + _GATHER > stood)
        before = len(reader.blocks)
        insert(mysql8, t, 5)
        time.sleep(0.5)
        assert len(reader.blocks) == before
        reader.standing = None
        reader.reach(mysql8.position())
        assert len(reader.blocks) <= before + 2
        assert contiguous(reader.blocks)
        reader.stand()
        insert(mysql8, t, body="REPEAT('x', 100000)")
        reader.reach(mysql8.position())


def test_a_quiet_dump_ends_when_it_is_woken(mysql8: MySqlServer) -> None:
    """Even without a heartbeat; the end of its connection is not reported as an error."""
    with reading(mysql8, heartbeat_seconds=600.0) as reader:
        reader.end()
        assert reader.error is None
        assert reader.dump.status.reconnects == 0


def test_a_full_ring_is_not_the_servers_silence(mysql8: MySqlServer) -> None:
    """While `on_block` waits longer than three heartbeats nothing is lost and nobody reconnects."""
    gate = threading.Event()
    with table(mysql8) as t, reading(mysql8, on_block=lambda _: gate.wait(60), heartbeat_seconds=1.0) as reader:
        insert(mysql8, t, 3)
        time.sleep(4)
        gate.set()
        insert(mysql8, t, 2)
        reader.reach(mysql8.position())
        time.sleep(1)
        assert (reader.transactions(), reader.dump.status.reconnects) == (5, 0)


def test_what_on_block_raises_ends_the_run(mysql8: MySqlServer) -> None:
    """Even an OSError is not taken for a lost connection."""

    def full(_: Block) -> None:
        raise OSError("disk full")

    with table(mysql8) as t, reading(mysql8, on_block=full) as reader:
        insert(mysql8, t)
        wait(lambda: reader.error is not None)
        assert str(reader.error) == "disk full"
        assert not reader.dump.status.connected


def test_a_silent_server_is_noticed(mysql8: MySqlServer) -> None:
    """After three heartbeats. What it sent meanwhile comes with the next connection, and so after a cut."""
    relay = Proxy(mysql8.port, mysql8.host)
    with table(mysql8) as t, reading(mysql8, port=relay.port, ssl_mode="DISABLED", heartbeat_seconds=1.0) as reader:
        insert(mysql8, t)
        reader.reach(mysql8.position())
        relay.muted = True
        insert(mysql8, t, 2)
        wait(lambda: reader.dump.status.reconnects == 1)
        assert "three heartbeats" in str(reader.dump.status.trouble)
        relay.disconnect()
        relay.muted = False
        reader.reach(mysql8.position())
        assert (reader.transactions(), contiguous(reader.blocks)) == (3, True)
    relay.close()


@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mariadb"])
def test_two_readers_with_one_server_id(name: str, request: pytest.FixtureRequest) -> None:
    """The server ends the first for the second; the error says why and what to change."""
    server: MySqlServer = request.getfixturevalue(name)
    with reading(server, slave_id=4711) as first, reading(server, slave_id=4711) as second:
        wait(lambda: first.error is not None)
        assert isinstance(first.error, SourceError)
        assert "another replica took our server id" in first.error.message
        assert "canal.instance.mysql.slaveId" in first.error.hint
        assert second.error is None


def test_delays_double_up_to_a_limit() -> None:
    """Delays are those between attempts to reach a server; `stop` ends the wait."""
    delays: list[float] = []
    stop = threading.Event()

    def sleep(seconds: float) -> None:
        delays.append(seconds)
        if len(delays) == 9:
            stop.set()

    settings = SourceSettings("127.0.0.1", free_port(), "u", "p")
    dump = Dump(settings, on_block=lambda _: None, sleep=sleep, jitter=lambda: 1.0)
    dump.run(lambda _: EntryPosition("mysql-bin.000001", 4), stop)
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert repr(dump) == f"<Dump u@127.0.0.1:{settings.port} away reconnects=9>"


def test_delays_begin_anew_after_a_connection_that_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that brought a block and broke soon is a failure too, however long the block took to be worked on. It lasts
    when bytes come for five seconds, and for longer than the delay before it."""
    lasting = [0, 0, 4.9, 5.1, 0, 0, 0, 0, 0, 7, 17, 0]
    now, delays, script = 1000.0, list[float](), list[float]()
    stop = threading.Event()

    def connect(_: SourceSettings) -> SimpleNamespace:
        script[:] = [lasting[len(delays)]]
        return SimpleNamespace(_sock=socket.socket(), _force_close=lambda: None)

    def receive(*_: object) -> int:
        nonlocal now
        if not script:
            raise SourceUnavailable("the connection broke", place="127.0.0.1", hint="Try again.")
        now += script.pop()
        return 100

    def work(_: Block) -> None:
        nonlocal now
        now += 60

    def sleep(seconds: float) -> None:
        delays.append(seconds)
        if len(delays) == len(lasting):
            stop.set()

    framer = SimpleNamespace(journal_name="b.1", heartbeats=0, blocks=lambda **_: [SimpleNamespace(journal_name="b.1")])
    monkeypatch.setattr("cdc_core.source.dump.connect", connect)
    monkeypatch.setattr("cdc_core.source.dump.receive", receive)
    monkeypatch.setattr(Dump, "_begin", lambda *_: framer)
    settings = SourceSettings("127.0.0.1", 1, "u", "p")
    dump = Dump(settings, on_block=work, clock=lambda: now, sleep=sleep, jitter=lambda: 1.0)
    dump.run(lambda _: EntryPosition("b.1", 4), stop)
    assert delays == [0.25, 0.5, 1, 0.25, 0.5, 1, 2, 4, 8, 16, 0.25, 0.5]


@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mysql9", "mariadb"])
@pytest.mark.parametrize("where", ["journal", "offset", "inside"])
def test_an_impossible_position_is_raised(name: str, where: str, request: pytest.FixtureRequest) -> None:
    """It is not tried again."""
    server: MySqlServer = request.getfixturevalue(name)
    journal, end = server.position()
    places = {"journal": ("mysql-bin.999999", 4), "offset": (journal, end + 1000), "inside": (journal, 7)}
    reader = Reader(settings_of(server), EntryPosition(*places[where]))
    reader.thread.join(60)
    assert not reader.thread.is_alive()
    assert isinstance(reader.error, DecodeError if where == "inside" else PositionError)
    assert f"{places[where][0]}:{places[where][1]}" in reader.error.place
    assert reader.blocks == []


def test_a_position_beyond_what_the_command_holds(mysql8: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is read from its start, and events before the position are skipped."""
    monkeypatch.setattr("cdc_core.source.dump_command._MAX_OFFSET", 100)
    with table(mysql8) as t, reading(mysql8) as reader:
        start = reader.next
        assert start.position > 100
        insert(mysql8, t, 2)
        reader.reach(mysql8.position())
        assert (reader.transactions(), reader.blocks[0].start) == (2, start.position)


def test_a_wrong_password_is_raised(mysql8: MySqlServer) -> None:
    """It is not tried again."""
    reader = Reader(settings_of(mysql8, password="no"), EntryPosition("mysql-bin.000001", 4))
    reader.thread.join(60)
    assert isinstance(reader.error, SourceError)


def captured(server: MySqlServer, start: EntryPosition) -> bytes:
    """The bytes of a dump from `start` to the present end, as they come from the socket."""
    own = settings_of(server, ssl_mode="DISABLED", heartbeat_seconds=30).identified()
    conn: Connection = connect(own)
    with server.root() as other:
        end = current_end(other)
    try:
        framer = begin_dump(conn, own, check_server(conn, own), start)
        stream, done = b"", False
        while not done:
            data = conn._sock.recv(1 << 20)
            stream += data
            feed(framer, data)
            done = (framer.journal_name, framer.position) == (end.journal_name, end.position)
        return stream
    finally:
        conn._force_close()


def test_a_real_stream_in_any_chunks(mysql8: MySqlServer) -> None:
    """Events and blocks are the same, whatever the chunks and buffers."""
    start = EntryPosition(*mysql8.position())
    with table(mysql8) as t:
        insert(mysql8, t, 5, "REPEAT('y', 900)")
        mysql8.execute("FLUSH BINARY LOGS")
        insert(mysql8, t, 5)
        stream = captured(mysql8, start)
    sizes = st.lists(st.integers(1, 3000), min_size=1, max_size=6)
    once = whole(feed(Framer(start.journal_name, start.position, checksum=True), stream))

    @settings(deadline=None, max_examples=50)
    @given(sizes, st.integers(24, 4000))
    def holds(sizes: list[int], buffer: int) -> None:
        framers = [Framer(start.journal_name, start.position, checksum=True, receive_buffer=buffer) for _ in "ab"]
        blocks, again = feed(framers[0], stream), feed(framers[1], stream, sizes)
        assert [(b.journal_name, b.start, b.end) for b in blocks] == [(b.journal_name, b.start, b.end) for b in again]
        assert whole(blocks) == whole(again) == once

    holds()
    assert len({name for name, _, _ in once}) == 2
