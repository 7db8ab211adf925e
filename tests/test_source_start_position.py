"""Where to start: cursor, configuration, current end; and places that are gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pymysql.connections import Connection

from cdc_core.errors import PositionError
from cdc_core.position import EntryPosition
from cdc_core.source.journals import binary_logs, check_exists, current_end
from cdc_core.source.start_position import find_start_position
from orchestration.stack.mysql import MySqlServer

pytestmark = pytest.mark.integration


@pytest.fixture
def conn(mysql8: MySqlServer) -> Iterator[Connection]:
    with mysql8.root() as connection:
        yield connection


def test_current_end(mysql8: MySqlServer, mysql57: MySqlServer, mariadb: MySqlServer) -> None:
    """As the server says, and the last of its journals."""
    for server in (mysql8, mysql57, mariadb):
        with server.connect() as connection:
            end = current_end(connection)
            assert (end.journal_name, end.position) == server.position()
            assert binary_logs(connection)[-1].name == end.journal_name
            check_exists(connection, end)


def test_the_cursor_comes_first(conn: Connection) -> None:
    """Then what is configured, a journal alone from its start, then the end."""
    name = current_end(conn).journal_name
    cursor, configured = EntryPosition(name, 100, timestamp=5), EntryPosition(name, 0)
    assert find_start_position(conn, cursor, configured) == (cursor, "the cursor")
    position, reason = find_start_position(conn, None, configured)
    assert (position, "configured" in reason) == (EntryPosition(name, 4), True)
    position, reason = find_start_position(conn, None, None)
    assert position == current_end(conn)
    assert "current end" in reason


@pytest.mark.parametrize(
    ("name", "offset", "what"),
    [("mysql-bin.000000", 4, "purged"), ("mysql-bin.999999", 4, "none of"), ("other.000001", 4, "none of")],
)
def test_a_journal_that_is_not_there(conn: Connection, name: str, offset: int, what: str) -> None:
    """The oldest that is left, and ways out."""
    oldest = binary_logs(conn)[0].name
    if name == "mysql-bin.000000" and oldest == name:
        pytest.skip("the server begins with it")
    with pytest.raises(PositionError, match=what) as caught:
        find_start_position(conn, EntryPosition(name, offset), None)
    assert oldest in caught.value.message
    assert "canal.instance.master.journal.name" in caught.value.hint


def test_a_purged_journal(mysql8: MySqlServer, conn: Connection) -> None:
    """Purging what the cursor needs is noticed."""
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
