"""Where reading starts: cursor, configuration, current end; and positions that are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pymysql.connections import Connection

from cdc_core.errors import PositionError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.journals import binary_logs, check_exists, check_not_purged, current_end
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.place import Start, find
from cdc_core.source.start.tree import Configured, StartFacts
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import settings_of

pytestmark = pytest.mark.integration


@pytest.fixture
def conn(mysql8: MySqlServer) -> Iterator[Connection]:
    with mysql8.root() as connection:
        yield connection


def test_current_end(mysql8: MySqlServer, mysql57: MySqlServer, mariadb: MySqlServer) -> None:
    """The end that the server gives, in its last journal."""
    for server in (mysql8, mysql57, mariadb):
        with server.connect() as connection:
            end = current_end(connection)
            assert (end.journal_name, end.position) == server.position()
            assert binary_logs(connection)[-1].name == end.journal_name
            check_exists(connection, end)


@pytest.fixture
def settings(mysql8: MySqlServer) -> SourceSettings:
    return settings_of(mysql8)


def start(
    conn: Connection,
    settings: SourceSettings,
    cursor: EntryPosition | None = None,
    reset: bool = False,
    **known: Any,
) -> Start:
    history = LogPosition(settings.host, settings.port, cursor) if cursor else None
    facts = StartFacts(settings.address, server_id=1, history=history, **known)
    return find(conn, settings, facts, reset_to_end=reset)


def test_the_cursor_comes_first(conn: Connection, settings: SourceSettings) -> None:
    """Then the configured place, a journal alone from its start, then the end, with server and time."""
    name = current_end(conn).journal_name
    cursor, master = EntryPosition(name, 100, timestamp=5, server_id=1), Configured(settings.address, name)
    found = start(conn, settings, cursor, master=master)
    assert (found.position, found.rule, found.goes_on) == (cursor, "the last position", True)
    found = start(conn, settings, master=master)
    assert (found.position, "configured" in found.rule) == (EntryPosition(name, 4), True)
    found = start(conn, settings)
    assert found.position == current_end(conn)
    assert "current end" in found.rule
    assert found.position.server_id == 1
    assert abs((found.position.timestamp or 0) / 1000 - time.time()) < 60


def test_times_on_a_real_server(mysql8: MySqlServer, conn: Connection, settings: SourceSettings) -> None:
    """A configured time, also within a journal; the time of a position at another address, and after errors."""
    mysql8.execute("FLUSH BINARY LOGS")
    with mysql8.database():
        wanted = EntryPosition(*mysql8.position())
        mysql8.execute("CREATE DATABASE IF NOT EXISTS start_times", "DROP DATABASE start_times")
    now = int(time.time()) * 1000
    begun = Configured(settings.address, timestamp=now - 1000 * 3600 * 24 * 365)
    with pytest.raises(PositionError, match="before the oldest"):
        start(conn, settings, master=begun)
    time.sleep(1.1)
    for master in (
        Configured(settings.address, timestamp=now + 1000),
        Configured(settings.address, wanted.journal_name, timestamp=now + 1000),
    ):
        found = start(conn, settings, master=master)
        assert found.position.journal_name == wanted.journal_name
        assert found.position > wanted
    left = EntryPosition("mysql-bin.999999", 4, now + 1000, server_id=7)
    for known in ({"errors": 3}, {}):
        history = LogPosition(settings.host if known else "elsewhere", settings.port, left)
        facts = StartFacts(settings.address, 1, history=history, fallback_seconds=0, **known)
        assert find(conn, settings, facts).position > wanted


def test_inside_a_transaction(mysql8: MySqlServer, conn: Connection, settings: SourceSettings) -> None:
    """The start of the transaction around the position."""
    with mysql8.database():
        begun = EntryPosition(*mysql8.position())
    found = start(conn, settings, replace(begun, position=begun.position + 30), inside=True)
    assert found.position == begun
    assert "start of the transaction" in found.rule


def test_a_purged_position_may_be_given_up(conn: Connection, settings: SourceSettings) -> None:
    """With canal.auto.reset.latest.pos.mode a purged cursor may be given up, a configured position may not."""
    gone = EntryPosition("mysql-bin.000000", 4)
    found = start(conn, settings, gone, reset=True)
    assert found.position == current_end(conn)
    assert not found.goes_on
    assert "purged" in str(found.lost)
    assert "rows are lost" in found.rule
    with pytest.raises(PositionError, match="purged"):
        start(conn, settings, reset=True, master=Configured(settings.address, gone.journal_name))


@pytest.mark.parametrize(
    ("name", "offset", "what"),
    [("mysql-bin.000000", 4, "purged"), ("mysql-bin.999999", 4, "unknown to"), ("other.000001", 4, "unknown to")],
)
def test_a_journal_that_is_not_there(
    conn: Connection, settings: SourceSettings, name: str, offset: int, what: str
) -> None:
    """The error has the oldest journal left, and the remedies."""
    oldest = binary_logs(conn)[0].name
    if name == "mysql-bin.000000" and oldest == name:
        pytest.skip("the server begins with it")
    with pytest.raises(PositionError, match=what) as caught:
        start(conn, settings, EntryPosition(name, offset))
    assert oldest in caught.value.message
    assert "--anew" in caught.value.hint


def test_a_purged_journal(mysql8: MySqlServer, conn: Connection) -> None:
    """The error notices that the journal of the cursor was purged."""
    before = current_end(conn)
    mysql8.execute("FLUSH BINARY LOGS")
    after = current_end(conn)
    mysql8.execute(f"PURGE BINARY LOGS TO '{after.journal_name}'")
    with pytest.raises(PositionError, match="purged"):
        check_exists(conn, before)


def test_an_offset_beyond_the_end(conn: Connection) -> None:
    """As after a crash that lost the last events."""
    end = current_end(conn)
    with pytest.raises(PositionError, match="beyond the end"):
        check_exists(conn, EntryPosition(end.journal_name, end.position + 1))


def test_purged_transactions(conn: Connection, mysql8: MySqlServer) -> None:
    """The error has the missing interval, the oldest position and the remedies."""
    with mysql8.database():
        mysql8.execute("FLUSH BINARY LOGS")
        mysql8.execute(f"PURGE BINARY LOGS TO '{current_end(conn).journal_name}'")
    with conn.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_purged")
        purged = GtidSet.parse(cursor.fetchall()[0][0])
    check_not_purged(conn, purged)
    (source, ((low, high),)) = purged.parts[0]
    with pytest.raises(PositionError, match=f"transactions {source[0]}:{high - 1} are needed") as caught:
        check_not_purged(conn, GtidSet.of({source: ((low, high - 1),)}))
    assert f"{binary_logs(conn)[0].name}:4" in caught.value.message
    assert "--anew" in caught.value.hint
