"""DDL statements as items of the stream, as each server logs them."""

from __future__ import annotations

import pytest

from cdc_core.meta.nodes import MemoryNodes
from cdc_core.schema.ddl import Ddl
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, config, running, until
from tests.support.servers import MySqlFactory

pytestmark = pytest.mark.integration

_SELECT = "CREATE TABLE u AS SELECT id FROM t"
_WITHOUT_SELECT = ["CREATE TABLE u (id INT)", "INSERT INTO u SELECT id FROM t"]  # 5.7 refuses the other with GTIDs

SCRIPT = [
    "CREATE TABLE t (id INT PRIMARY KEY, v INT) COMMENT 'x'",
    "INSERT INTO t VALUES (1, 1), (2, 2)",
    "CREATE TEMPORARY TABLE passing (id INT)",
    _SELECT,
    "ALTER TABLE t ADD COLUMN `odd ``name` INT DEFAULT 7 /*!50000 COMMENT 'a, b' */, ALGORITHM = COPY",
    "DROP TEMPORARY TABLE passing",
    "TRUNCATE TABLE u",
    "INSERT INTO u VALUES (3)",
    "RENAME TABLE t TO s, u TO t, s TO u",
    "DROP TABLE t, u",
]
EXPECTED = ["create t", "t 2", "create u", "alter t", "u 2", "truncate u", "u 1", "rename t", "rename u", "rename s"]
EXPECTED += ["drop t", "drop u"]


@pytest.fixture(params=["mysql57", "mysql8", "mysql9", "mariadb"])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found: MySqlServer = request.getfixturevalue(request.param)
    return found


def items(found: tuple[Ddl, ...]) -> list[str]:
    assert all(ddl.understood for ddl in found)
    return [f"{str(effect.kind).removesuffix('_filled')} {effect.table}" for ddl in found for effect in ddl.effects]


def read(server: MySqlServer, statements: list[str], rows: int, *session: str) -> list[str]:
    """What comes of the statements, in one session, once there are so many rows."""
    with server.database() as name, running(config(server, name), MemoryNodes()) as capture:
        assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
        with server.root(name) as connection, connection.cursor() as cursor:
            for statement in (*session, *statements):
                cursor.execute(statement)
        until(lambda: capture.status().backlog_rows == rows, capture)
        seen: list[str] = []
        while not seen or seen[-1] != "drop u":
            claim = capture.service.claim(CLIENT, 1000, 60, "run-1", 60)
            assert claim is not None, seen
            seen += items(claim.ddl) + [f"{table.schema.table} {table.rows}" for table in claim.tables]
        return seen


def test_each_server_gives_the_same_items(server: MySqlServer) -> None:
    """Whatever form the server gives to CREATE ... SELECT and to DROP of several tables."""
    script, expected = list(SCRIPT), list(EXPECTED)
    if server.version.startswith("5.7"):
        script[3:4] = _WITHOUT_SELECT
        expected[1:5] = ["create u", "t 2", "u 2", "alter t"]  # a statement on one table comes before rows of others
    assert read(server, script, 5) == expected


def test_items_in_compressed_transactions(mysql8: MySqlServer) -> None:
    """CREATE ... SELECT is one transaction there, which may be compressed."""
    assert read(mysql8, SCRIPT, 5, "SET SESSION binlog_transaction_compression = ON") == EXPECTED


def test_mariadb_sets_variables_for_one_statement(mariadb: MySqlServer) -> None:
    """SET STATEMENT ... FOR stands before the statement in the binlog."""
    statements = [
        "SET STATEMENT lock_wait_timeout = 5 FOR CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "SET STATEMENT lock_wait_timeout = 5 FOR CREATE OR REPLACE TABLE t AS SELECT 1 AS a",
        "CREATE SEQUENCE q",
        "ALTER ONLINE TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS b INT",
        "CREATE TABLE u (id INT)",
        "DROP TABLE t, u",
    ]
    found = ["create t", "t 1", "create t", "t 1", "alter t", "create u", "drop t", "drop u"]
    assert read(mariadb, statements, 2) == found


def test_mariadb_logs_an_alter_twice(mariadb: MySqlServer) -> None:
    """With binlog_alter_two_phase: when it starts, and when it commits. One that is rolled back comes to nothing."""
    statements = [
        "CREATE TABLE u (id INT PRIMARY KEY, a INT)",
        "INSERT INTO u VALUES (1, 1), (2, 1)",
        "ALTER TABLE u ADD COLUMN b INT",
        "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR 1062 SELECT 1; ALTER TABLE u ADD z INT, ADD UNIQUE (a); END",
        "INSERT INTO u VALUES (3, 3, 3)",
        "DROP TABLE u",
    ]
    found = read(mariadb, statements, 3, "SET SESSION binlog_alter_two_phase = 1")
    assert found == ["create u", "u 2", "alter u", "u 1", "drop u"]


def test_a_create_that_failed_has_dropped_the_table(mariadb: MySqlServer) -> None:
    """MariaDB logs CREATE OR REPLACE with its error."""
    statements = [
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO u VALUES (1), (2)",
        "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR 1067 SELECT 1; "
        "CREATE OR REPLACE TABLE u (id TINYINT DEFAULT 2000000000); END",
    ]
    assert read(mariadb, statements, 2) == ["create u", "u 2", "drop u"]


def test_a_memory_table_is_empty_after_a_restart(new_mysql: MySqlFactory) -> None:
    """MySQL 5.7 says so by a DELETE in the binlog, when somebody uses the table: it holds up no other table."""
    server = new_mysql("5.7.22")
    server.execute("CREATE DATABASE m", "CREATE TABLE m.u (id INT PRIMARY KEY) ENGINE = MEMORY")
    server.execute("INSERT INTO m.u VALUES (1), (2)")
    server.stop()
    server.start()
    with running(config(server, "m"), MemoryNodes()) as capture:
        server.execute("INSERT INTO m.u VALUES (2)")
        all_read(capture, server)
        found = capture.service.claim(CLIENT, 10, 60, "run-1", 60)
        assert found is not None, capture.status()
        assert (items(found.ddl), found.rows) == (["truncate u"], 1)


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES"])
def test_the_sessions_mode_decides_what_is_quoted(mysql8: MySqlServer, mode: str) -> None:
    """The QUERY event carries it."""
    quote = '"' if mode == "ANSI_QUOTES" else "`"
    statements = [
        f"CREATE TABLE {quote}u{quote} (a INT PRIMARY KEY COMMENT 'x\\\\', b INT COMMENT 'y')",
        "INSERT INTO u VALUES (1, 1)",
        "DROP TABLE u",
    ]
    assert read(mysql8, statements, 1, f"SET SESSION sql_mode = '{mode}'") == ["create u", "u 1", "drop u"]


def test_names_in_lower_case(new_mysql: MySqlFactory) -> None:
    """With lower_case_table_names=1 the statement has the name as it was written, the table another one."""
    server = new_mysql("5.7.22", lower_case_table_names="1")
    statements = ["CREATE TABLE T (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]
    statements += ["RENAME TABLE `T` TO `V`, V TO U", "DROP TABLE U"]
    found = ["create t", "t 1", "rename t", "rename v", "drop u"]
    assert read(server, statements, 1) == found
