"""MySQL's changes of columns against their translation for PostgreSQL: on both real servers, with the same values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc_core.mirror.postgresql.ddl import translated
from cdc_core.mirror.postgresql.sql import literal
from cdc_core.mirror.sql import Untranslatable
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

    def _rows(self, table: str, column: str) -> Any:
        self.target.execute(f'SELECT id, "{column}"::text FROM "{self.database}"."{table}" ORDER BY id')
        return self.target.fetchall()


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
