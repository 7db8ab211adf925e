"""Where a snapshot stands, on every server, at rest and under writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from pymysql.connections import Connection

from cdc_core.errors import SourceChanged, SourceError
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.binlog import changes, ddl_on, position
from spark_jobs.snapshot.place import SnapshotPlace, begin, settled
from spark_jobs.snapshot.source import Source, connect

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mysql57", "mysql8", "mysql9", "mariadb"])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


def source(server: MySqlServer, server_id: int | None = None) -> Source:
    return Source(server.host, server.port, server.user, server.password, server_id=server_id)


class Writing:
    """How many rows were written so far."""

    rows = 0


@contextmanager
def writes(server: MySqlServer, database: str, table: str = "t") -> Iterator[list[float]]:
    """Gives how many seconds each statement took."""
    over, took = threading.Event(), list[float]()

    def write() -> None:
        with server.root(database) as connection, connection.cursor() as cursor:
            while not over.is_set():
                begun = time.monotonic()
                cursor.execute(f"INSERT INTO {table} VALUES (1)")
                connection.commit()
                took.append(time.monotonic() - begun)
                Writing.rows += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not took and writer.is_alive():
            time.sleep(0.01)
        yield took
    finally:
        over.set()
        writer.join()


def pause(_: float) -> None:
    """Until rows were written meanwhile; not for long, as writes may be stopped."""
    before, deadline = Writing.rows, time.monotonic() + 4
    while Writing.rows < before + 2 and time.monotonic() < deadline:
        threading.Event().wait(0.002)


def started(
    connection: Connection[Any], server: MySqlServer, database: str, *, by_key: bool = False, tries: int = 20
) -> SnapshotPlace:
    return begin(connection, source(server), database, "t", by_key=by_key, sleep=pause, tries=tries)


def test_the_snapshot_has_what_the_binlog_has_at_its_place(server: MySqlServer) -> None:
    """Under writes: exact where the server says it, or the account may lock the table; else between two positions, or
    an error that names the GRANT. Writes of other tables do not matter."""
    with server.database() as database:
        server.execute("CREATE TABLE t (v INT)", "CREATE TABLE u (v INT)", database=database)
        with writes(server, database):
            if server.version == "mariadb":
                exact_place(server, database)
            else:
                with connect(source(server)) as connection:
                    assert not started(connection, server, database, by_key=True).exact
                with connect(source(server)) as connection, pytest.raises(SourceError, match="GRANT LOCK TABLES"):
                    started(connection, server, database)
                with locking(server):
                    exact_place(server, database)
        with writes(server, database, "u"):
            exact_place(server, database)


@contextmanager
def locking(server: MySqlServer) -> Iterator[None]:
    """The account may lock tables."""
    server.execute(f"GRANT LOCK TABLES ON *.* TO '{server.user}'@'%'")
    try:
        yield
    finally:
        server.execute(f"REVOKE LOCK TABLES ON *.* FROM '{server.user}'@'%'")


def test_no_query_waits_for_a_snapshot(mysql8: MySqlServer) -> None:
    """Also while a long query reads the table. An account with RELOAD does not flush it."""
    with mysql8.database() as database, locking(mysql8):
        mysql8.execute(
            "CREATE TABLE t (v INT)",
            "INSERT INTO t VALUES (1)",
            f"GRANT RELOAD ON *.* TO '{mysql8.user}'@'%'",
            database=database,
        )
        long = threading.Thread(target=mysql8.execute, args=[f"SELECT SLEEP(8) FROM {database}.t LIMIT 1"])
        try:
            with writes(mysql8, database):
                begun = time.monotonic()
                long.start()
                exact_place(mysql8, database)
                mysql8.execute("SELECT COUNT(*) FROM t", database=database)
                assert time.monotonic() < begun + 7
        finally:
            long.join()
            mysql8.execute(f"REVOKE RELOAD ON *.* FROM '{mysql8.user}'@'%'")


@pytest.mark.parametrize("name", ["mysql57", "mysql8", "mysql9"])
def test_nobody_waits_for_a_lock_that_is_not_had(name: str, request: pytest.FixtureRequest) -> None:
    """Where a transaction that wrote the table stays open: neither queries nor writes wait."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as database, locking(server):
        server.execute("CREATE TABLE t (v INT)", database=database)
        with closing(server.root(database)) as idle, idle.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO t VALUES (0)")
            with writes(server, database) as took, connect(source(server)) as connection:
                begun = time.monotonic()
                with pytest.raises(SourceError, match="does not come to rest"):
                    started(connection, server, database, tries=1)
                assert time.monotonic() > begun + 4  # it has waited for the lock
        assert max(took) < 2


def test_what_may_be_rows_of_a_table_counts(mysql8: MySqlServer) -> None:
    """Rows of it, compressed transactions, the commit of an XA transaction; not those of others."""
    with mysql8.database() as database, connect(source(mysql8)) as connection:
        mysql8.execute("CREATE TABLE t (v INT)", "CREATE TABLE u (v INT)", database=database)

        def seen(*statements: str) -> bool:
            low = position(connection)
            mysql8.execute(*statements, database=database)
            return changes(connection, database, "t", low, position(connection))

        assert not seen("INSERT INTO u VALUES (1)", "FLUSH BINARY LOGS", "DELETE FROM u")
        assert seen("INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (1)")
        assert seen("SET SESSION binlog_transaction_compression = ON", "INSERT INTO u VALUES (1)")
        assert seen("TRUNCATE t")
        assert seen("XA START 'a'", "INSERT INTO t VALUES (1)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")


def exact_place(server: MySqlServer, database: str) -> None:
    """As many rows as events of rows up to the place."""
    start = EntryPosition(server.position()[0], 4)
    with connect(source(server)) as connection, connection.cursor() as cursor:
        there = started(connection, server, database)
        assert there.exact
        cursor.execute(f"SELECT COUNT(*) FROM {database}.t")
        (rows,) = cursor.fetchone() or (0,)
        cursor.execute(f"SHOW BINLOG EVENTS IN '{start.journal_name}'")
        events = [e for e in cursor.fetchall() if e[2].startswith("Write_rows") and int(e[4]) <= there.low.position]
        tables = {int(e[5].split("table_id: ")[1].split()[0]) for e in events}
    assert there.low.journal_name == start.journal_name
    assert (rows, len(tables) >= 1) == (len(events) - others(server, start, database, there.low), True)


def others(server: MySqlServer, start: EntryPosition, database: str, end: EntryPosition) -> int:
    """Rows events of other databases in that file."""
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{start.journal_name}'")
        found, mine = 0, False
        for event in cursor.fetchall():
            if event[2] == "Table_map":
                mine = f"({database}.t)" in event[5]
            elif event[2].startswith("Write_rows") and not mine and int(event[4]) <= end.position:
                found += 1
    return found


def test_what_is_written_and_not_committed_is_waited_for(mysql8: MySqlServer) -> None:
    """As on a disk that is slow: the binlog has the transaction, and the engine does not show it yet."""
    with mysql8.database() as database, connect(source(mysql8)) as connection, connection.cursor() as cursor:
        mysql8.execute("CREATE TABLE t (v INT)", database=database)
        before = position(connection)
        mysql8.execute("SET GLOBAL binlog_group_commit_sync_delay = 1000000")
        writer = threading.Thread(target=mysql8.execute, args=[f"INSERT INTO {database}.t VALUES (1)"])
        writer.start()
        try:
            deadline = time.monotonic() + 60
            while position(connection) == before and time.monotonic() < deadline:
                time.sleep(0.01)
            assert settled(connection, lambda _: time.sleep(0.1)) > before
            cursor.execute(f"SELECT COUNT(*) FROM {database}.t")
            assert cursor.fetchone() == (1,)
        finally:
            writer.join()
            mysql8.execute("SET GLOBAL binlog_group_commit_sync_delay = 0")


def test_statements_that_name_a_table_are_seen(server: MySqlServer) -> None:
    """DDL on it, or on its database; not rows, and not DDL on others."""
    with server.database() as database, connect(source(server)) as connection:

        def seen(*statements: str) -> str | None:
            low = position(connection)
            server.execute(*statements, database=database)
            return ddl_on(connection, database, "t`x", low, position(connection))

        assert "t``x" in (seen("CREATE TABLE `t``x` (v INT)") or "")
        assert seen("INSERT INTO `t``x` VALUES (1), (2)") is None
        low = position(connection)
        server.execute("CREATE TABLE b (v INT)", "INSERT INTO b VALUES (1)", database=database)
        for name, is_named in (("b", True), ("beg", False), ("gin", False), ("tabl", False), ("v", True)):
            named = ddl_on(connection, database, name, low, position(connection))
            assert (named is not None) is is_named
            assert changes(connection, database, name, low, position(connection)) is is_named
        low = position(connection)
        server.execute("INSERT INTO b VALUES (1)", database=database)
        assert ddl_on(connection, database, "b", low, position(connection)) is None
        assert changes(connection, database, "b", low, position(connection))
        assert seen("CREATE TABLE u (v INT)", "FLUSH BINARY LOGS", "DROP TABLE u") is None
        views = "CREATE VIEW w AS SELECT * FROM `t``x`", "ALTER VIEW w AS SELECT v FROM `t``x`", "DROP VIEW w"
        programs = (
            "CREATE TRIGGER g BEFORE INSERT ON `t``x` FOR EACH ROW SET @a=1",
            "CREATE PROCEDURE p() DROP TABLE `t``x`",
        )
        low = position(connection)
        assert seen(*views, *programs, "DROP TRIGGER g", "DROP PROCEDURE p") is None
        assert not changes(connection, database, "t`x", low, position(connection))
        assert seen("FLUSH BINARY LOGS", "ALTER TABLE `t``x` ADD w INT") is not None
        assert seen("RENAME TABLE `t``x` TO u, u TO `t``x`") is not None
        assert seen(f"DROP DATABASE {database}", f"CREATE DATABASE {database}") is not None


def test_statements_of_any_character_set_are_shown(server: MySqlServer) -> None:
    """A session's statement need not be UTF-8, and the server shows its bytes, also of the statement that changed rows
    where it notes them. Such a statement names its table, or may name any whose name is not ASCII."""
    noted = "Variable_name IN ('binlog_rows_query_log_events', 'binlog_annotate_row_events')"
    with server.database() as database, connect(source(server)) as connection, server.root(database) as session:
        with session.cursor() as cursor:
            cursor.execute(f"SHOW VARIABLES WHERE {noted}")
            for name, _ in cursor.fetchall():
                cursor.execute(f"SET SESSION {name} = ON")
        low = position(connection)
        session.query("SET NAMES latin1")
        session.query("CREATE TABLE größe (v VARCHAR(9)) COMMENT 'Grüße'".encode("latin-1"))
        session.query("INSERT INTO größe VALUES ('ü')".encode("latin-1"))
        session.commit()
        high = position(connection)
        seen = {name: ddl_on(connection, database, name, low, high) is not None for name in ("größe", "v", "other")}
        assert seen == {"größe": True, "v": True, "other": False}
        assert changes(connection, database, "größe", low, high)


def test_only_the_server_that_the_service_reads_may_answer(mysql8: MySqlServer) -> None:
    """By its server id."""
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@server_id")
        (number,) = cursor.fetchone() or (0,)
    connect(source(mysql8, number)).close()
    with pytest.raises(SourceChanged, match=f"server {number} answers, but the service reads server {number + 1}"):
        connect(source(mysql8, number + 1))
