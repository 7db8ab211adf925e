"""The place of a time in real binlogs: several files, with times that the test sets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cdc_core.errors import PositionError
from cdc_core.position import EntryPosition
from cdc_core.source.journals import binary_logs
from cdc_core.source.start.time_search import find_by_time, transaction_start
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import MySqlFactory, discard, purge, settings_of

pytestmark = pytest.mark.integration

BASE = 1_700_000_000  # seconds; each file begins a hundred after the one before
STEP = 10


@dataclass(frozen=True)
class Written:
    """A server with four files, and the start of each transaction by its time."""

    server: MySqlServer
    starts: dict[int, tuple[str, int]]
    files: list[str]

    def find(self, seconds: float, journal: str = "") -> EntryPosition:
        return find_by_time(settings_of(self.server), int(seconds * 1000), journal)


def written(server: MySqlServer) -> Written:
    starts: dict[int, tuple[str, int]] = {}
    with server.database() as database, server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (i INT PRIMARY KEY)")
        for file in range(4):
            begun = BASE + 100 * file
            cursor.execute(f"SET timestamp = {begun}")
            cursor.execute("FLUSH BINARY LOGS")
            if not file:
                name, _ = server.position()
                purge(server, name)  # MariaDB keeps a file until its engines have its transactions
            for number in range(1, 4) if file != 2 else ():
                when = begun + STEP * number
                cursor.execute(f"SET timestamp = {when}")
                starts[when] = server.position()
                cursor.execute(f"INSERT INTO t VALUES ({when})")
        cursor.execute("SET timestamp = DEFAULT")
        cursor.execute("SHOW BINARY LOGS")
        return Written(server, starts, [row[0] for row in cursor.fetchall()])


@pytest.fixture(scope="module", params=["8.0.31", "5.7.22", "mariadb"])
def log(request: pytest.FixtureRequest, new_mysql: MySqlFactory) -> Iterator[Written]:
    server = new_mysql(request.param)
    yield written(server)
    discard(server)


def test_the_last_transaction_at_or_before(log: Written) -> None:
    """To the second, between two, at the end of a file, and after a file without transactions."""
    for when, after in ((110, 110), (110.9, 110), (119, 110), (120, 120), (130, 130), (199, 130), (310, 310)):
        assert str(log.find(BASE + when)) == "{}:{}".format(*log.starts[BASE + after])
    assert str(log.find(BASE + 250)) == "{}:{}".format(*log.starts[BASE + 130])
    found = log.find(BASE + 305)
    assert str(found) == "{}:{}".format(*log.starts[BASE + 130])
    assert found.timestamp == (BASE + 130) * 1000


def test_before_the_first_transaction(log: Written) -> None:
    """The first file had begun by then, so nothing was written before."""
    assert log.find(BASE + 5) == EntryPosition(log.files[0], 4)


def test_within_one_journal(log: Written) -> None:
    """The start of the journal if it has nothing as old; other files are not searched."""
    first, second = log.files[:2]
    assert str(log.find(BASE + 500, first)) == "{}:{}".format(*log.starts[BASE + 30])
    assert str(log.find(BASE + 125, second)) == "{}:{}".format(*log.starts[BASE + 120])
    assert log.find(BASE + 5, second) == EntryPosition(second, 4)


def test_times_that_cannot_be(log: Written) -> None:
    """Too old, in the future, and in a journal that does not exist."""
    with pytest.raises(PositionError, match="before the oldest journal") as caught:
        log.find(BASE - 1)
    assert log.files[0] in caught.value.message
    assert "2023-11-14" in caught.value.message
    with pytest.raises(PositionError, match="in the future"):
        log.find(99_999_999_999)
    with pytest.raises(PositionError, match="is unknown to the server"):
        log.find(BASE, "mysql-bin.999999")


def test_the_transaction_around_a_position(log: Written) -> None:
    """Positions inside the transaction, at its start, and at the end of everything."""
    settings = settings_of(log.server)
    name, offset = log.starts[BASE + 120]
    start = EntryPosition(name, offset)
    _, following = log.starts[BASE + 130]
    assert transaction_start(settings, start) == start
    assert transaction_start(settings, EntryPosition(name, following - 1)) == start
    assert transaction_start(settings, EntryPosition(name, following)).position == following
    assert transaction_start(settings, EntryPosition(name, 10)) == EntryPosition(name, 4)
    with log.server.root() as connection:
        last = binary_logs(connection)[-1]
    assert transaction_start(settings, EntryPosition(last.name, last.size)).position < last.size


@pytest.mark.parametrize("in_one_file", [True, False])
def test_a_clock_that_was_set_back(new_mysql: MySqlFactory, *, in_one_file: bool) -> None:
    """A time that came twice is the first one: the place is in front of every transaction that is not earlier."""
    server = new_mysql("8.0.31")
    starts: dict[int, tuple[str, int]] = {}
    with server.database() as database, server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (i INT)")
        cursor.execute(f"SET timestamp = {BASE}")
        cursor.execute("FLUSH BINARY LOGS")
        purge(server, server.position()[0])
        for number, when in enumerate((10, 30, 50, 70, 12, 32, 52, 72, 92)):
            cursor.execute(f"SET timestamp = {BASE + when}")
            starts[when] = server.position()
            cursor.execute("INSERT INTO t VALUES (1)")
            if number in (5, 7) if in_one_file else number % 2:
                cursor.execute("FLUSH BINARY LOGS")
    log = Written(server, {}, [])
    for when, place in ((32, 30), (52, 50), (70, 70), (80, 72)):
        assert str(log.find(BASE + when)) == "{}:{}".format(*starts[place]), when
    discard(server)


def test_a_search_leaves_no_connection_behind(log: Written) -> None:
    """The server ends its side of the dump too, without waiting for a heartbeat."""
    log.find(BASE + 310)
    statement = "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    with log.server.root() as connection, connection.cursor() as cursor:
        for _ in range(600):
            cursor.execute(statement)
            left = cursor.fetchall()[0][0]
            if not left:
                break
            time.sleep(0.1)
    assert left == 0
