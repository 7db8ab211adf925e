"""MySQL's changes of columns against their translation for PostgreSQL: on both real servers, with the same values."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest

from cdc_core.canal.mirror.postgresql.ddl import translated
from cdc_core.canal.mirror.postgresql.sql import literal
from cdc_core.canal.mirror.sql import Untranslatable
from orchestration.stack.mysql.server import MySqlServer
from tests.support.postgres import Postgres

pytestmark = pytest.mark.integration

TYPES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "127"), "TINYINT UNSIGNED": ("0", "255"), "SMALLINT": ("-32768", "71"), "INT": ("-7", "70"),
    "SMALLINT UNSIGNED": ("65535",), "MEDIUMINT": ("8388607",), "INT UNSIGNED": ("4294967295", "3"),
    "BIGINT": ("-9223372036854775808", "5"), "BIGINT UNSIGNED": ("18446744073709551615",),
    "YEAR": ("1970", "0", "2024"),
    "DECIMAL(5,2)": ("-999.99", "1.5"), "DECIMAL(10)": ("9999999999", "-1"), "DECIMAL(9,4) UNSIGNED": ("1.2345", "0"),
    "DECIMAL(30,10)": ("12345678901234567890.5",), "FLOAT": ("0.1", "1.5"), "DOUBLE": ("0.1", "1e20"),
    "DOUBLE(7,2)": ("1.55",), "BIT(1)": ("b'1'",), "BIT(8)": ("200", "65"), "BIT(64)": ("18446744073709551615",),
    "CHAR(3)": ("'a'", "'B  '", "'1'"), "VARCHAR(3)": ("'a  '", "'äöü'", "'b'", "'7'"), "CHAR(10)": ("'a'",),
    "VARCHAR(10)": ("'2024-1-2'", "'p,q'", "'B'"), "VARCHAR(200) CHARACTER SET latin1": ("'é'",),
    "VARCHAR(200) CHARACTER SET utf8mb4": ("'\U0001f40b'", "REPEAT('\U0001f40b', 200)"), "TINYTEXT": ("'a'",),
    "TEXT": ("'a '", "REPEAT('y', 300)"), "LONGTEXT": ("REPEAT('z', 70000)", "'{}'"), "ENUM('a','B')": ("'a'", "'B'"),
    "ENUM('B','a','c')": ("'c'", "'a'"), "ENUM('A','b')": ("'A'",), "SET('p','q')": ("'p,q'", "''"),
    "SET('q','p')": ("'p,q'",), "SET('p','x','q')": ("'p,q'", "'x'"), "BINARY(3)": ("'a'",), "BINARY(5)": ("'a'",),
    "VARBINARY(3)": ("x'610000'",), "VARBINARY(10)": ("'abc'", "x'ff00'"), "BLOB": ("x'00'", "REPEAT('b', 300)"),
    "TINYBLOB": ("'a'",), "LONGBLOB": ("REPEAT('b', 70000)",), "DATE": ("'2024-02-29'",),
    "DATETIME": ("'2024-01-02 03:04:05'",), "DATETIME(3)": ("'1999-12-31 23:59:59.500'",),
    "DATETIME(6)": ("'1999-12-31 23:59:59.500000'", "'2024-01-01 00:00:00.999999'"), "JSON": ("'{\"a\": 1}'",),
    "TIMESTAMP NULL": ("'2024-01-02 03:04:05'",), "TIMESTAMP(6) NULL": ("'2024-01-02 03:04:05.5'",),
    "TIME": ("'-12:00:00'", "'838:59:59'"), "TIME(2)": ("'10:00:00.55'",),
}  # fmt: skip
_AS_BYTES = ("BINARY", "VARBINARY", "BLOB", "TINYBLOB", "LONGBLOB")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres().start()
    server.execute("CREATE DATABASE shop", database="postgres")
    yield server
    server.discard()


class Both:
    """A table `t` at both servers; the source's session takes every value that can be made fit."""

    def __init__(self, source: Any, target: Any, database: str) -> None:
        self.source, self.target, self.database = source, target, database

    def run(self, sql: str) -> None:
        """At both sides. Raises Untranslatable before anything is done, and what either server raises."""
        statements = translated(sql, self.database, "", self.columns)
        self.source.execute(sql)
        for one in statements:
            self.target.execute(one)

    def columns(self, schema: str, name: str) -> dict[str, str | None]:
        self.target.execute(
            "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (f'"{schema}"."{name}"',),
        )
        return dict(self.target.fetchall())

    def made(self, declared: str, values: tuple[str, ...]) -> None:
        for one in ("t", "fresh"):
            self.run(f"DROP TABLE IF EXISTS {one}")
        self.run(f"CREATE TABLE t (id INT PRIMARY KEY, v {declared}) CHARACTER SET utf8mb4")
        for key, value in enumerate((*values, "NULL")):
            self.source.execute(f"INSERT INTO t VALUES ({key}, {value})")
        self.copy("t", "v", declared)

    def copy(self, to: str, column: str, declared: str) -> None:
        """The source's rows, as the mirror writes them."""
        self.source.execute(f"SELECT id, {_read(column, declared.split('(')[0].split()[0])} FROM t")
        for key, value in self.source.fetchall():
            self.target.execute(f'INSERT INTO "{self.database}"."{to}" VALUES ({key}, {literal(value)})')

    def equal(self, column: str, declared: str) -> bool:
        """Whether the target has what a mirror would write that began after the statement."""
        self.run(f"CREATE TABLE fresh (id INT PRIMARY KEY, v {declared}) CHARACTER SET utf8mb4")
        self.copy("fresh", column, declared)
        return self._rows("t", column) == self._rows("fresh", "v")

    def copy_rows(self) -> None:
        """All of `t`, as it is."""
        names, rows = self._source_rows()
        columns = ", ".join(f'"{name}"' for name in names)
        for row in rows:
            values = ", ".join(literal(one if one is None or isinstance(one, bytes) else str(one)) for one in row)
            self.target.execute(f'INSERT INTO "{self.database}".t ({columns}) VALUES ({values})')

    def check(self) -> None:
        """That `t` has the same columns, rows and key at both."""
        names, expected = self._source_rows()
        columns = ", ".join(f'"{name}"' for name in names)
        self.target.execute(f'SELECT {columns} FROM "{self.database}".t')
        assert sorted(map(_shown, self.target.fetchall())) == sorted(map(_shown, expected))
        self.source.execute(
            "SELECT column_name FROM information_schema.key_column_usage "
            "WHERE table_schema = DATABASE() AND table_name = 't' AND constraint_name = 'PRIMARY'"
        )
        key = {name for (name,) in self.source.fetchall()}
        self.target.execute(
            "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey) "
            "WHERE indisprimary AND indrelid = to_regclass(%s)",
            (f'"{self.database}".t',),
        )
        assert {name for (name,) in self.target.fetchall()} == key

    def _source_rows(self) -> tuple[list[str], Any]:
        self.source.execute("SELECT * FROM t")
        return [column[0] for column in self.source.description], self.source.fetchall()

    def _rows(self, table: str, column: str) -> Any:
        self.target.execute(f'SELECT id, "{column}"::text FROM "{self.database}"."{table}" ORDER BY id')
        return self.target.fetchall()


def _shown(row: tuple[Any, ...]) -> str:
    return repr([value if value is None or isinstance(value, bytes) else str(value) for value in row])


def _read(column: str, kind: str) -> str:
    if kind == "BIT":
        return f"{column} + 0"
    return column if kind in (*_AS_BYTES, "FLOAT", "DOUBLE") else f"CAST({column} AS CHAR)"


@pytest.fixture
def both(mysql8: MySqlServer, postgres: Postgres) -> Iterator[Both]:
    with mysql8.database() as name, mysql8.root(name) as link, link.cursor() as source:
        source.execute("SET sql_mode = '', time_zone = '+00:00'")
        with postgres.connect() as other, other.cursor() as target:
            target.execute("SET TIME ZONE 'UTC'")
            target.execute("SET client_min_messages = error")
            yield Both(source, target, name)


@pytest.mark.in_turn
def test_a_change_of_a_type_that_is_translated_has_the_sources_values(both: Both) -> None:
    """Every pair of types, in a session that makes values fit: what is not refused ends equal."""
    kept = []
    for old, values in TYPES.items():
        both.made(old, values)
        for new in TYPES:
            try:
                both.run(f"ALTER TABLE t MODIFY v {new}")
            except Untranslatable:
                continue
            kept.append((old, new))
            assert both.equal("v", new), f"{old} as {new}"
            both.made(old, values)
    assert {("INT", "BIGINT"), ("VARCHAR(3)", "TEXT"), ("ENUM('a','B')", "ENUM('B','a','c')")} <= set(kept)
    assert {old for old, new in kept if old == new} == set(TYPES)


ADDED = [f"{kind} {more}" for kind in TYPES for more in ("NULL", "NOT NULL", "")]
ADDED += [
    "INT DEFAULT 7", "INT DEFAULT -1.5", "DECIMAL(5,2) DEFAULT 1.005", "BIT(8) DEFAULT b'101'", "YEAR DEFAULT 70",
    "VARCHAR(5) DEFAULT 'it''s'", "CHAR(5) DEFAULT 'a '", "BINARY(5) DEFAULT 'a'", "VARBINARY(5) DEFAULT 'a'",
    "ENUM('a','B') DEFAULT 'b'", "SET('p','q') DEFAULT 'q,p'", "DATE DEFAULT '2024-02-29'", "DATE DEFAULT '24-2-29'",
    "DATE DEFAULT '0000-00-00'", "DATETIME DEFAULT '2024-01-02 03:04:05'", "DATETIME DEFAULT '2024-01-02'",
    "DATETIME(3) DEFAULT '1999-12-31 23:59:59.123'", "TIME DEFAULT '1112'", "TIME DEFAULT '-12:00:00'",
    "TIMESTAMP NULL DEFAULT '2024-01-02 03:04:05'", "TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "INT AS (id * 2) STORED",
    "BIGINT NOT NULL AUTO_INCREMENT UNIQUE", "SERIAL", "CHAR(3) DEFAULT (LOWER('A'))", "POINT", "BOOLEAN DEFAULT TRUE",
]  # fmt: skip


@pytest.mark.in_turn
def test_an_added_column_has_the_sources_values(both: Both) -> None:
    """The rows that are there get at the target what they get at the source, or the statement is refused."""
    refused = []
    for definition in ADDED:
        both.made("INT", ("1", "2"))
        try:
            both.run(f"ALTER TABLE t ADD w {definition}")
        except (Untranslatable, psycopg.Error):
            refused.append(definition)
        else:
            assert both.equal("w", definition.split(" NOT")[0].split(" DEFAULT")[0]), definition
    assert len(refused) < len(ADDED) / 3, refused
    assert {"YEAR DEFAULT 70", "DATE DEFAULT '24-2-29'", "BINARY(5) DEFAULT 'a'", "SERIAL"} <= set(refused)


DECIDED_BY_MYSQL = [  # the session's modes, a table's columns, rows, clauses of ALTER TABLE
    ("", "id INT PRIMARY KEY, g INT AS (id * 2) STORED", "(1, DEFAULT)", "MODIFY g INT AS (id * 3) STORED"),
    ("", "id INT PRIMARY KEY, n INT", "(1, 5)", "MODIFY n INT AS (id * 3) STORED"),
    ("", "id INT PRIMARY KEY, a INT, g VARCHAR(9) AS (CONCAT(A))", "(1, 5, DEFAULT)", "MODIFY a DECIMAL(12,2)"),
    ("", "id INT PRIMARY KEY, a ENUM('a','b'), g INT AS (a + 0)", "(1, 'a', DEFAULT)", "MODIFY a ENUM('b','a')"),
    ("", "id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET latin1, g INT AS (LENGTH(a))", "(1, 'é', DEFAULT)",
     "CONVERT TO CHARACTER SET utf8mb4"),
    ("", "id INT PRIMARY KEY, v INT", "(0, 1), (7, 2)", "MODIFY id INT AUTO_INCREMENT"),
    ("", "a INT, id INT, v INT, PRIMARY KEY (a, id)", "(1, 1, 1), (1, 2, 2)", "DROP COLUMN a"),
    ("", "a INT, id INT, v INT, PRIMARY KEY (v, a, id)", "(1, 1, 1), (1, 2, 2)", "DROP COLUMN v, DROP COLUMN a"),
    ("", "id INT PRIMARY KEY, v INT", "(1, 5)", "DROP COLUMN id, ADD COLUMN id INT NOT NULL DEFAULT 3"),
    ("", "id INT PRIMARY KEY, v INT", "(1, 5)", "MODIFY V BIGINT"),
    ("", "id INT PRIMARY KEY, v INT", "(1, 5)", "CHANGE V V BIGINT"),
    ("", "id INT PRIMARY KEY, v VARCHAR(9) COLLATE binary", "(1, 'ab')", "ADD w INT"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w VARCHAR(9) DEFAULT b'1000001'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w VARCHAR(9) DEFAULT \"b'1'\""),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w VARCHAR(9) DEFAULT 007"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w VARCHAR(9) DEFAULT 1e3"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w VARCHAR(9) DEFAULT -0"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w BIT(8) DEFAULT '5'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w DOUBLE(7,2) DEFAULT 1.555"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w FLOAT DEFAULT 123456789"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w INT DEFAULT '1e2'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w ENUM('2','1') DEFAULT 1"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w ENUM('á','b') DEFAULT 'a'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w ENUM('a','b') DEFAULT 'a  '"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w ENUM('a','A') COLLATE utf8mb4_bin DEFAULT 'a'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w SET('á','q') DEFAULT 'a,q'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w SET('p','q') DEFAULT 'p,q'"),
    ("", "id INT PRIMARY KEY", "(1)", "ADD w DATETIME DEFAULT '1999-12-31 23:59:58.5'"),
    ("TIME_TRUNCATE_FRACTIONAL", "id INT PRIMARY KEY", "(1)", "ADD w DATETIME DEFAULT '2003-12-31 23:59:58.6'"),
    ("", "id INT PRIMARY KEY", "(1)", r"ADD w VARCHAR(40) DEFAULT 'C:\\files'"),
    ("NO_BACKSLASH_ESCAPES", "id INT PRIMARY KEY", "(1)", r"ADD w VARCHAR(40) DEFAULT 'C:\new'"),
    ("", "id INT PRIMARY KEY", "(1)", r"ADD w VARCHAR(40) DEFAULT 'a\0b'"),
    ("REAL_AS_FLOAT", "id INT PRIMARY KEY, v DOUBLE", "(1, 0.123456789012)", "MODIFY v REAL"),
    ("", "id INT PRIMARY KEY, v FLOAT", "(1, -1.5)", "MODIFY v DOUBLE UNSIGNED"),
    ("", "id INT PRIMARY KEY, v TEXT", "(1, REPEAT('x', 300))", "MODIFY v TEXT(50)"),
    ("", "id INT PRIMARY KEY, v BLOB(70000)", "(1, REPEAT('x', 69000))", "MODIFY v BLOB"),
    ("", "id INT PRIMARY KEY, v VARCHAR(9)", "(1, '日')", "DEFAULT CHARSET latin1; MODIFY v VARCHAR(20)"),
    ("", "id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1", "(1, 'é')",
     "CONVERT TO CHARACTER SET utf8mb4; MODIFY v VARCHAR(20) CHARACTER SET ascii"),
    ("", "id INT PRIMARY KEY, v VARCHAR(9)", "(1, '日')",
     "DEFAULT CHARSET latin1; MODIFY v VARCHAR(9) CHARACTER SET utf8mb4"),
    ("", "id INT PRIMARY KEY, v ENUM('a','b')", "(1, 'a')", "MODIFY v ENUM('á','a','b') COLLATE utf8mb4_0900_ai_ci"),
    ("", "id INT PRIMARY KEY, v ENUM('a','A') COLLATE utf8mb4_bin", "(1, 'a'), (2, 'A')",
     "MODIFY v ENUM('a','A') COLLATE utf8mb4_0900_ai_ci"),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "columns", "rows", "clauses"), DECIDED_BY_MYSQL)
def test_what_mysql_decides_is_equal_or_refused(both: Both, mode: str, columns: str, rows: str, clauses: str) -> None:
    """Modes, generated columns, numbers of its own, keys, character sets, literals."""
    both.source.execute("SET sql_mode = %s", (mode,))
    both.run(f"CREATE TABLE t ({columns}) CHARACTER SET utf8mb4")
    both.source.execute(f"INSERT INTO t VALUES {rows}")
    both.copy_rows()
    try:
        for clause in clauses.split(";"):
            both.run(f"ALTER TABLE t {clause}")
    except (Untranslatable, psycopg.Error):
        return
    both.check()


@pytest.mark.in_turn
@pytest.mark.full
def test_random_clauses_together(both: Both) -> None:
    """Renames, types, keys and columns of one statement, many at once: equal, or refused by one of the three."""
    chance, done = random.Random(7), 0
    while done < 60:
        both.run("DROP TABLE IF EXISTS t")
        key = chance.choice(["id", "id, a", "a, b"])
        both.run(f"CREATE TABLE t (id INT NOT NULL, a INT NOT NULL, b INT NOT NULL, c INT, PRIMARY KEY ({key}))")
        both.source.execute("INSERT INTO t VALUES (1, 10, 100, 1000), (2, 20, 200, NULL)")
        both.copy_rows()
        try:
            both.run("ALTER TABLE t " + ", ".join(_clause(chance) for _ in range(chance.randint(2, 4))))
        except (Untranslatable, pymysql.Error, psycopg.Error):
            continue
        both.check()
        done += 1


def _clause(chance: random.Random) -> str:
    name, other = (chance.choice(["a", "b", "c", "d", "A", "B"]) for _ in range(2))
    kind = chance.choice(["INT", "BIGINT", "INT NOT NULL", "BIGINT NOT NULL DEFAULT 7", "VARCHAR(30)"])
    return chance.choice([
        f"RENAME COLUMN {name} TO {other}", f"CHANGE {name} {other} {kind}", f"MODIFY {name} {kind}",
        f"DROP COLUMN {name}", f"ADD COLUMN {name} {kind}", "DROP PRIMARY KEY",
        f"ADD PRIMARY KEY ({chance.choice(['id', 'a', 'id, b', 'a, b'])})",
    ])  # fmt: skip


def test_keys_go_with_their_tables(both: Both) -> None:
    """A column that was of the key takes NULL; tables of one name go to another database one after the other."""
    both.run("CREATE TABLE t (a INT PRIMARY KEY, id INT)")
    both.run("ALTER TABLE t DROP PRIMARY KEY, MODIFY a INT NULL, ADD PRIMARY KEY (id)")
    both.source.execute("INSERT INTO t VALUES (NULL, 5)")
    both.copy_rows()
    both.check()
    both.run(f"CREATE DATABASE {both.database}_old")
    for number in range(3):
        both.run(f"RENAME TABLE t TO {both.database}_old.t{number}")
        both.run("CREATE TABLE t (id INT PRIMARY KEY)")
    both.run(f"DROP DATABASE {both.database}_old")


def test_an_empty_table_takes_every_column(both: Both) -> None:
    """No row has a value of before."""
    for number, definition in enumerate(["SERIAL", "DATE NOT NULL", "TIMESTAMP", "BINARY(3) NOT NULL"]):
        both.run(f"CREATE TABLE t{number} (id INT)")
        both.run(f"ALTER TABLE t{number} ADD w {definition}")


def test_nulls_of_a_column_that_becomes_not_null(both: Both) -> None:
    """MySQL replaces them, as its SQL mode says: the target refuses. Without NULLs it goes on."""
    both.made("INT", ("1",))
    with pytest.raises(psycopg.Error, match="there are NULLs"):
        both.run("ALTER TABLE t MODIFY v BIGINT NOT NULL")
    both.made("INT", ("1",))
    both.source.execute("DELETE FROM t WHERE v IS NULL")
    both.target.execute(f'DELETE FROM "{both.database}".t WHERE v IS NULL')
    both.run("ALTER TABLE t MODIFY v BIGINT NOT NULL")


def test_statements_one_after_the_other(both: Both) -> None:
    """Keys, names and schemas; a database that somebody else uses too is not dropped."""
    name = both.database
    both.run("CREATE TABLE p (id INT, v INT, PRIMARY KEY (ID))")
    both.run("ALTER TABLE p DROP PRIMARY KEY, ADD PRIMARY KEY (w, id), RENAME COLUMN v TO w")
    both.run("CREATE TABLE q LIKE p")
    both.run("RENAME TABLE p TO temp, q TO p, temp TO q")
    both.run("ALTER TABLE q MODIFY id BIGINT, ALTER w SET DEFAULT 5")
    both.target.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (name,))
    assert {one for (one,) in both.target.fetchall()} == {"p", "q"}
    both.target.execute(f'CREATE VIEW "{name}".mine AS SELECT 1 AS one')
    (drop,) = translated(f"DROP DATABASE {name}", name, "", both.columns)
    with pytest.raises(psycopg.Error, match="mine"):
        both.target.execute(drop)
    both.target.execute(f'DROP VIEW "{name}".mine')
    both.run("TRUNCATE p")
    both.run(f"DROP DATABASE {name}")
    both.target.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,))
    assert both.target.fetchall() == []
    both.source.execute(f"CREATE DATABASE {name}")
