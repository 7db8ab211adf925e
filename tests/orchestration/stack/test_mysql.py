"""MySQL servers of the stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import listening


@pytest.mark.integration
def test_mysql_gives_a_fresh_database_and_a_capturing_account(mysql8: MySqlServer) -> None:
    """Root writes, the account reads and may see the binlogs, and the database is gone afterwards."""
    with mysql8.database() as name:
        mysql8.execute("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (7)", database=name)
        with mysql8.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT a FROM t")
            assert cursor.fetchall() == ((7,),)
            assert cursor.execute("SHOW BINARY LOGS") >= 1
    with mysql8.root() as connection, connection.cursor() as cursor:
        assert cursor.execute("SHOW DATABASES LIKE %s", (name,)) == 0


@pytest.mark.integration
def test_mysql_recovers_from_a_kill(tmp_path: Path) -> None:
    """A committed row survives `kill`, on the same port with the same password."""
    server = MySqlServer("8.0.31", tmp_path).start()
    try:
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)", "INSERT INTO d.t VALUES (1)")
        server.kill()
        assert not listening(server.port)
        server.start()
        with server.connect("d") as connection, connection.cursor() as cursor:
            assert cursor.execute("SELECT * FROM t") == 1
    finally:
        server.stop()


@pytest.mark.integration
def test_passwords_are_in_no_repr_and_for_the_owner_alone(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Not shown, not readable by others."""
    assert mysql8.password not in repr(mysql8)
    server = MySqlServer("8.0.31", tmp_path)
    assert (tmp_path / "passwords.json").stat().st_mode & 0o077 == 0
    assert server.password != mysql8.password
