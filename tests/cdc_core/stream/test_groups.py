"""XA transactions and rollbacks of real servers through a destination: the rows left are those of the tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pymysql
import pytest

from cdc_core.errors import ConfigError
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.stream import prepared_groups, settle
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, config, running, until
from tests.support.changes import changes, commit_xa, left, run, xa
from tests.support.servers import MySqlFactory, purge

pytestmark = pytest.mark.integration

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB",
    "CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(60)) ENGINE=MyISAM",
    "CREATE TABLE done (id INT PRIMARY KEY)",
)


@pytest.fixture(scope="module", params=["5.7.22", "8.0.31", "9", "mariadb"])
def server(request: pytest.FixtureRequest, new_mysql: MySqlFactory) -> MySqlServer:
    """GTIDs are off: with them MySQL forbids most of what is tried here."""
    options = {} if request.param == "mariadb" else {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
    try:
        return new_mysql(request.param, **options)
    except ConfigError as error:
        pytest.skip(str(error))


def table_of(server: MySqlServer, database: str, table: str) -> dict[int, str]:
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, v FROM {table}")
        return dict(cursor.fetchall())


Scenario = Callable[[MySqlServer, str], None]


def transactions(server: MySqlServer, database: str) -> None:
    """XA in two phases and in one, side by side and across files; rollbacks of all kinds."""
    name = f"'x','y',{(1 << 31) - 1 if server.version == 'mariadb' else (1 << 32) - 1}"
    with server.root(database) as one, server.root(database) as other:
        run(one, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        with server.root(database) as third:  # its end lets go of what it prepared
            xa(
                third,
                name,
                "INSERT INTO t VALUES (3, 'c'), (4, 'd')",
                "UPDATE t SET v = 'bb' WHERE id = 2",
            )
        run(other, "INSERT INTO t VALUES (5, 'e')", "FLUSH BINARY LOGS", "INSERT INTO m VALUES (5, 'e')")
        commit_xa(other, name)
        run(other, "INSERT INTO t VALUES (6, 'f')")
        xa(one, "X'00ff27'", "INSERT INTO t VALUES (7, 'gone')")
        run(one, "XA ROLLBACK X'00ff27'")
        run(one, "XA START 'once'", "INSERT INTO t VALUES (8, 'h')", "XA END 'once'", "XA COMMIT 'once' ONE PHASE")
        run(one, "BEGIN", "INSERT INTO t VALUES (9, 'gone')", "INSERT INTO m VALUES (9, 'stays')")
        run(one, "CREATE TEMPORARY TABLE tmp (i INT)", "INSERT INTO t VALUES (10, 'gone')", "ROLLBACK")
        run(one, "DROP TEMPORARY TABLE IF EXISTS tmp", "CREATE TEMPORARY TABLE tmp (i INT)")
        run(one, "BEGIN", "INSERT INTO t VALUES (11, 'gone')", "DROP TEMPORARY TABLE tmp", "ROLLBACK")
        run(one, "SET SESSION sql_mode = 'ANSI_QUOTES'")
        run(one, "BEGIN", "INSERT INTO t VALUES (12, 'k')", "SAVEPOINT `a b`", "INSERT INTO t VALUES (13, 'gone')")
        run(one, "INSERT INTO m VALUES (13, 'stays')", "ROLLBACK TO `a b`", "INSERT INTO t VALUES (14, 'n')", "COMMIT")
        run(other, "SET SESSION binlog_format = MIXED", "BEGIN", "INSERT INTO t VALUES (15, uuid())", "SAVEPOINT s")
        run(other, "CREATE TEMPORARY TABLE tmp2 (i INT)", "INSERT INTO t VALUES (16, uuid())", "ROLLBACK TO s")
        run(other, "INSERT INTO t VALUES (17, uuid())", "COMMIT")
        run(one, "SET SESSION sql_mode = ''")
        xa(one, "'sp'", "INSERT INTO t VALUES (18, 'r')", "SAVEPOINT s", "INSERT INTO t VALUES (19, 'gone')",
           "INSERT INTO m VALUES (19, 'stays')", "ROLLBACK TO s", "INSERT INTO t VALUES (20, 't')")  # fmt: skip
        run(one, "XA COMMIT 'sp'")
        xa(one, "'two'", "UPDATE t, m SET t.v = 'gone', m.v = 'set' WHERE t.id = 5 AND m.id = 5")
        run(one, "XA ROLLBACK 'two'", "CREATE TEMPORARY TABLE tmp3 (i INT)")
        run(one, "BEGIN", "UPDATE t, m SET t.v = 'gone', m.v = 'set again' WHERE t.id = 5 AND m.id = 5")
        run(one, "CREATE TEMPORARY TABLE tmp4 (i INT)", "DROP TEMPORARY TABLE tmp3", "ROLLBACK")
        if server.version != "mariadb":
            run(one, "SET SESSION binlog_rows_query_log_events = ON", "INSERT INTO t VALUES (21, 'u')")
        run(one, "CREATE TRIGGER fires AFTER INSERT ON t FOR EACH ROW INSERT INTO m VALUES (NEW.id + 50, NEW.v)")
        run(one, "BEGIN", "INSERT INTO t VALUES (30, 'gone'), (31, 'gone')", "DROP TEMPORARY TABLE tmp4", "ROLLBACK")
        with suppress(pymysql.Error):
            run(one, "INSERT INTO t VALUES (32, 'gone'), (33, 'gone'), (32, 'twice')")
        run(one, "DROP TRIGGER fires", "INSERT INTO t VALUES (34, 'v')")
        run(one, "CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(60)) AS SELECT id, v FROM t")
        run(one, "BEGIN", "UPDATE t SET v = 'w' WHERE id = 1", "INSERT INTO m SELECT id + 100, v FROM t", "ROLLBACK")


def compressed(server: MySqlServer, database: str) -> None:
    """XA within TRANSACTION_PAYLOAD, or with MariaDB's compressed events."""
    with server.root(database) as one:
        if server.version == "mariadb":
            run(one, "SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
        elif server.version != "5.7.22":
            run(one, "SET SESSION binlog_transaction_compression = ON")
        values = ", ".join(f"({number}, REPEAT('x', 50))" for number in range(3000))
        xa(one, "'big'", f"INSERT INTO t VALUES {values}", "UPDATE t SET v = 'w' WHERE id % 2", "DELETE FROM t LIMIT 9")
    server.execute("INSERT INTO m VALUES (1, 'a')", database=database)
    with server.root(database) as other:
        commit_xa(other, "'big'")


@pytest.mark.parametrize("scenario", [transactions, compressed])
def test_what_is_left_is_what_the_tables_hold(
    server: MySqlServer, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading with next to no memory gives the same positions."""
    with server.database() as database:
        server.execute(*TABLES, database=database)
        journal, position = server.position()
        options: dict[str, Any] = {"journal_name": journal, "position": position}
        scenario(server, database)
        server.execute("INSERT INTO done VALUES (1)", database=database)
        with running(config(server, database, **options), MemoryNodes()) as capture:
            found = changes(capture)
        for table in found.keys() - {"done"}:
            assert left(found[table]) == table_of(server, database, table)

        monkeypatch.setattr(settle, "HOLD", 300)
        monkeypatch.setattr(prepared_groups.PreparedGroups.__init__, "__defaults__", (0,))
        with running(config(server, database, block_bytes=4096, **options), MemoryNodes()) as capture:
            assert changes(capture, 5) == found


def test_a_start_after_xa_prepare(server: MySqlServer) -> None:
    """The rows are found in an older file; if it is gone the error has the remedy."""
    with server.database() as database:
        server.execute(*TABLES, database=database)
        with server.root(database) as one:
            xa(one, "'early'", "INSERT INTO t VALUES (1, 'a')")
        server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO m VALUES (2, 'b')", database=database)
        journal, position = server.position()
        with server.root(database) as other:
            commit_xa(other, "'early'")
            run(other, "INSERT INTO done VALUES (1)")
        wanted = config(server, database, journal_name=journal, position=position)
        with running(wanted, MemoryNodes()) as capture:
            assert left(changes(capture)["t"]) == {1: "a"}

        purge(server, journal)
        with running(wanted, MemoryNodes(), wait=False) as capture:
            until(lambda: capture.status().error, capture)
            error = capture.status().error
            assert "XA COMMIT X'6561726c79',X'',1" in error.message
            assert "sluice copy" in error.hint


@pytest.mark.in_turn
def test_a_prepared_transaction_larger_than_the_ring(mysql8: MySqlServer, mariadb: MySqlServer) -> None:
    """It is read again and served in parts, and each row comes once."""
    for server in (mysql8, mariadb):
        with server.database() as database:
            server.execute(*TABLES, database=database)
            journal, position = server.position()
            doubled = ["INSERT INTO t VALUES (0, REPEAT('x', 50))"]
            doubled += [f"INSERT INTO t SELECT id + {1 << n}, v FROM t" for n in range(18)]
            with server.root(database) as one:
                xa(one, "'big'", *doubled)
            with server.root(database) as other:
                commit_xa(other, "'big'")
                run(other, "INSERT INTO done VALUES (1)")
            options = {"journal_name": journal, "position": position, "buffer_size": 2048}
            with running(config(server, database, **options), MemoryNodes()) as capture:
                found = changes(capture, 10_000)["t"]
            assert [change[1] for change in found] == list(range(1 << 18))
            assert left(found).keys() == set(range(1 << 18))


def test_xa_with_gtids(mysql8: MySqlServer, mysql9: MySqlServer) -> None:
    """Plain ones, and tagged ones of MySQL 9; the GTID of the claim is that of the last transaction."""
    for server, tag in ((mysql8, ""), (mysql9, "shop")):
        with server.database() as database:
            server.execute(*TABLES, database=database)
            journal, position = server.position()
            begin = [f"SET SESSION gtid_next = 'AUTOMATIC:{tag}'"] if tag else []
            with server.root(database) as one:
                run(one, *begin)
                xa(one, "'g'", "INSERT INTO t VALUES (1, 'a')")
            with server.root(database) as other:
                run(other, *begin, "INSERT INTO t VALUES (2, 'b')")
                commit_xa(other, "'g'")
                run(other, "INSERT INTO done VALUES (1)")
            with running(config(server, database, journal_name=journal, position=position), MemoryNodes()) as capture:
                assert [change[1] for change in changes(capture)["t"]] == [2, 1]
                assert f":{tag}:" in str(capture.service.client(CLIENT).cursor.gtid) or not tag


def test_sequences_are_no_tables(mariadb: MySqlServer) -> None:
    """Their rows are left out, also in a group with other rows, with and without full metadata."""
    for metadata in ("FULL", "NO_LOG"):
        with mariadb.database() as database:
            mariadb.execute(*TABLES, "CREATE SEQUENCE q", database=database)
            journal, position = mariadb.position()
            with mariadb.root(database) as one:
                run(one, f"SET GLOBAL binlog_row_metadata = {metadata}")
            with mariadb.root(database) as one:
                run(one, "INSERT INTO t SELECT NEXT VALUE FOR q, 'x'", "SELECT SETVAL(q, 5000)")
                run(one, "INSERT INTO m SELECT NEXT VALUE FOR q, 'y'", "INSERT INTO done VALUES (1)")
            with running(config(mariadb, database, journal_name=journal, position=position), MemoryNodes()) as capture:
                found = changes(capture)
            assert {table: len(rows) for table, rows in found.items()} == {"t": 1, "m": 1, "done": 1}
            mariadb.execute("SET GLOBAL binlog_row_metadata = FULL")
