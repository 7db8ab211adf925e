"""Definitions after DDL statements, compared with what the catalogue of real servers then shows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pymysql
import pytest

from cdc_core.schema.agreement import with_defaults_of
from cdc_core.schema.conventions import Conventions, read_conventions
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.information_schema import list_tables
from cdc_core.schema.interpreter import definition_after
from cdc_core.schema.table import Column, TableSchema
from orchestration.stack.mysql.server import MySqlServer

CREATE = """CREATE TABLE t (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT COMMENT 'the key',
    v VARCHAR(20) NOT NULL DEFAULT 'x''y', n DECIMAL(12,2) DEFAULT 1.5, f FLOAT,
    d DATETIME(3) DEFAULT '2024-02-29 10:00:00', b BIGINT UNSIGNED NULL DEFAULT 7,
    e ENUM('a','it''s') CHARACTER SET latin1 DEFAULT 'A', s SET('p','q'), bl BLOB, tx TEXT(300),
    bi BIT(9) DEFAULT b'101',
    bo BOOL NOT NULL DEFAULT TRUE, y YEAR, g INT AS (b * 2) VIRTUAL) DEFAULT CHARSET=utf8mb4 COMMENT 'a table'"""
STATEMENTS = [
    "ALTER TABLE t ADD c VARCHAR(10) DEFAULT 'seven' AFTER id, ADD COLUMN z INT FIRST",
    "ALTER TABLE t DROP COLUMN f, MODIFY n DECIMAL(14,4) NOT NULL DEFAULT 2",
    "ALTER TABLE t CHANGE v w CHAR(30) COLLATE utf8mb4_bin NULL AFTER b",
    "ALTER TABLE t ALTER COLUMN z SET DEFAULT 9, ALTER w DROP DEFAULT",
    "ALTER TABLE t MODIFY y YEAR NOT NULL FIRST, ADD (k1 TINYINT(1), k2 DOUBLE PRECISION DEFAULT -1.50)",
    "ALTER TABLE t MODIFY id INT UNSIGNED NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (c, id)",
    "ALTER TABLE t COMMENT 'another', ENGINE=InnoDB, ADD INDEX (b)",
    "ALTER TABLE t ADD ts TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
    "ALTER TABLE t MODIFY e ENUM('a','it''s','new') CHARACTER SET latin1 NOT NULL, MODIFY s SET('p','q','r')",
    "ALTER TABLE t DROP COLUMN k1, ADD k1 SMALLINT ZEROFILL, CHANGE k2 k3 TIME(2) DEFAULT '10:11:12'",
    "ALTER TABLE t ADD vb VARBINARY(70), ADD p POINT, ADD nv NATIONAL VARCHAR(5), ADD mt TEXT COLLATE utf8mb4_bin",
    "ALTER TABLE t DROP COLUMN mt, DROP COLUMN tx, CONVERT TO CHARACTER SET latin1",
    "ALTER TABLE t ADD d1 DECIMAL(6,1) DEFAULT 2.25, ADD d0 DECIMAL(5,0) DEFAULT -2.5, ADD c5 CHAR(5) DEFAULT 'a  '",
    "ALTER TABLE t ADD late CHAR(3)",
]
DEFAULTS = [
    "INT DEFAULT +5", "INT DEFAULT - 5", "INT DEFAULT (-5)", "INT DEFAULT (7 + 1)", "INT DEFAULT 1.6",
    "INT DEFAULT b'101'", "INT DEFAULT 0x41", "DOUBLE DEFAULT -0.0", "DOUBLE DEFAULT -0e0", "DOUBLE DEFAULT '-0'",
    "DOUBLE(9,2) DEFAULT 1.234", "FLOAT DEFAULT -0.0", "DECIMAL(5,2) DEFAULT -0.001", "DECIMAL(5,2) DEFAULT .5",
    "DECIMAL(5,2) DEFAULT '1e1'", "BIT(9) DEFAULT 5", "BIT(9) DEFAULT x'05'", "VARCHAR(5) DEFAULT X'41'",
    "VARCHAR(5) DEFAULT 0b1000001", "VARCHAR(5) DEFAULT _latin1'abc' COLLATE utf8mb4_bin",
    "VARCHAR(5) DEFAULT _latin1 x'E4'", "VARCHAR(5) DEFAULT 'a' 'b'", "VARCHAR(5) DEFAULT N'abc'",
    "VARCHAR(5) DEFAULT 1.5", "VARCHAR(5) CHARACTER SET latin1 DEFAULT 'ä'", "VARBINARY(5) DEFAULT 'abc'",
    "VARBINARY(5) DEFAULT ''", "BINARY(4) DEFAULT 0x00FF", "TEXT DEFAULT ('abc')", "DATE DEFAULT DATE'2024-02-29'",
    "DATE DEFAULT 20240229", "DATE DEFAULT CURRENT_DATE", "TIME DEFAULT 10203",
    "DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", "TIMESTAMP(6) NULL DEFAULT NOW(6)",
    "TIMESTAMP NULL DEFAULT 0", "DATETIME DEFAULT TIMESTAMP'2024-02-29 01:02:03' ON UPDATE CURRENT_TIMESTAMP()",
    "YEAR DEFAULT 70", "VARCHAR(40) DEFAULT uuid() NOT NULL", "VARCHAR(40) DEFAULT (uuid())",
    "VARCHAR(90) DEFAULT CURRENT_USER COMMENT 'who'", "BIGINT DEFAULT NEXT VALUE FOR s",
    "BIGINT NOT NULL DEFAULT NEXTVAL(s)", "INT DEFAULT id", "JSON DEFAULT (JSON_ARRAY())",
    "POINT DEFAULT (POINT(1,2))", "INET6 DEFAULT '::1'",
]  # fmt: skip
RENAMES = [
    "ALTER TABLE t RENAME COLUMN y TO w, RENAME COLUMN w TO y",
    "ALTER TABLE t RENAME COLUMN z TO old_z, ADD z INT DEFAULT 3",
]


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_the_text_gives_what_the_catalogue_shows(name: str, request: pytest.FixtureRequest) -> None:
    """After each statement the definition is the catalogue's, on every server; only expressions look different."""
    server = request.getfixturevalue(name)
    with server.database() as database:
        mode = "SET SESSION sql_mode = ''"
        with server.root(database) as connection, connection.cursor() as cursor:
            cursor.execute(mode)
            conventions = read_conventions(cursor)
            cursor.execute("SELECT @@collation_database")
            collation = str(cursor.fetchall()[0][0])
            known: TableSchema | None = TableSchema(database, "", (), (), "", collation)
            for text in [CREATE, *STATEMENTS, *(RENAMES if name != "mysql57" else [])]:
                cursor.execute(text)
                known = after(known, text, database, conventions)

                assert known is not None, text
                assert comparable(known) == comparable(listed(server, database)), text


@pytest.mark.in_turn
@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_a_default_of_any_form_leaves_the_definition_known(name: str, request: pytest.FixtureRequest) -> None:
    """In CREATE, ADD, MODIFY and SET DEFAULT, as far as the server takes it. With the catalogue's defaults for those
    that stay as they are written, the definition is the catalogue's."""
    server, refused = request.getfixturevalue(name), 0
    with server.database() as database, server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        conventions = read_conventions(cursor)
        cursor.execute("SELECT @@collation_database")
        empty = TableSchema(database, "", (), (), "", str(cursor.fetchall()[0][0]))
        with suppress(pymysql.MySQLError):
            cursor.execute("CREATE SEQUENCE s")
        for default in DEFAULTS:
            definition = default.partition(" DEFAULT ")
            statements = [
                f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, c {default})",
                f"ALTER TABLE t ADD d {default}, MODIFY c {default} FIRST",
                f"ALTER TABLE t ALTER d SET DEFAULT {definition[2].partition(' ON UPDATE')[0]}",
            ]
            known: TableSchema | None = empty
            for text in statements:
                try:
                    cursor.execute(text)
                except pymysql.MySQLError:
                    refused += 1
                    continue
                known, shown = after(known, text, database, conventions), listed(server, database)

                assert known is not None, text
                assert comparable(with_defaults_of(known, shown)) == comparable(shown), text
            cursor.execute("DROP TABLE IF EXISTS t")
    assert refused < len(DEFAULTS) * 3 / 2


def after(schema: TableSchema | None, text: str, database: str, conventions: Conventions) -> TableSchema | None:
    found, understood = effects(text, database)
    assert understood, text
    for effect in found:
        schema = definition_after(schema, effect, conventions)
    return schema


def listed(server: MySqlServer, database: str) -> TableSchema:
    with server.connect() as connection:
        (found,) = list_tables(connection, lambda owner, _: owner == database)
    return found


def comparable(schema: TableSchema) -> list[str]:
    """A line for each column, without the words of expressions."""
    columns = (replace(c, default=None) if c.default_expression else c for c in schema.columns)
    return [f"{schema.name} {schema.primary_key} {schema.comment} {schema.collation}", *map(str, columns)]


PLAIN = Conventions(False, False, True, {}, {}, {})
SCHEMA = TableSchema("d", "t", (Column("a", 3, 0, nullable=False), Column("b", 3, 0)), ("a",))


def altered(*changes: ColumnChange) -> TableSchema | None:
    return definition_after(SCHEMA, Effect(EffectKind.ALTER, "d", "t", changes=changes), PLAIN)


@pytest.mark.parametrize(
    "change",
    [
        ColumnChange(ChangeKind.UNKNOWN, definition="ADD SOMETHING"),
        ColumnChange(ChangeKind.DROP_COLUMN, "not_there"),
        ColumnChange(ChangeKind.ADD_COLUMN, "A", definition="INT"),
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="INT", after="not_there"),
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="VARCHAR(3)"),
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="WONDER(3)"),
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="INT DEFAULT 1 + 1"),
        ColumnChange(ChangeKind.SET_DEFAULT, "b", definition="f(1) SOMETHING"),
        ColumnChange(ChangeKind.KEY, columns=("not_there",)),
        ColumnChange(ChangeKind.CHARSET, definition="klingon"),
    ],
)
def test_what_the_text_does_not_say_is_not_guessed(change: ColumnChange) -> None:
    """A clause that is unknown, does not fit the definition, or depends on a collation that is not known."""
    assert altered(change) is None


@pytest.mark.parametrize("text", ["f(1)", "'many'", "1.5", "-0x41", "NEXT VALUE FOR `d`.`s`", "_latin1 x'E4'"])
def test_a_default_that_is_not_known_stays_as_it_is_written(text: str) -> None:
    """Nobody takes it for a constant, and all else is known."""
    added = ColumnChange(ChangeKind.ADD_COLUMN, "c", definition=f"INT NOT NULL DEFAULT {text} COMMENT 'third'")
    for changes in ([added], [added, ColumnChange(ChangeKind.SET_DEFAULT, "b", definition=text)]):
        made = altered(*changes)

        assert made is not None
        assert [c.default_as_written for c in made.columns] == [False, len(changes) > 1, True]
        *_, third = made.columns
        assert (third.name, third.type_code, third.nullable, third.comment) == ("c", 3, False, "third")
        assert (third.default, third.default_expression) == (
            {"'many'": "many"}.get(text, text),
            True,
        )
        assert TableSchema.from_dict(made.to_dict()) == made


def test_the_catalogue_says_the_default_of_the_same_column_alone() -> None:
    """One that a later statement made another column of stays an expression."""
    one, other = (Column(name, 3, 0, default="0x41", default_expression=True, default_as_written=True) for name in "ab")
    current = TableSchema("d", "t", (Column("b", 8, 0, default="9"), Column("a", 3, 0, default="65")))

    found = with_defaults_of(TableSchema("d", "t", (one, other)), current)

    assert found.columns == (
        Column("a", 3, 0, default="65"),
        Column("b", 3, 0, default="0x41", default_expression=True),
    )


def test_conditions_hold_by_the_definition() -> None:
    """IF EXISTS of a column that is not there, and IF NOT EXISTS of one that is, do nothing."""
    drop = ColumnChange(ChangeKind.DROP_COLUMN, "x", conditional=True)
    add = ColumnChange(ChangeKind.ADD_COLUMN, "b", definition="TEXT", conditional=True)

    assert altered(drop, add) == SCHEMA


def test_a_swap_of_two_names_keeps_types_and_key() -> None:
    """The clauses of one statement happen at once."""
    made = altered(
        ColumnChange(ChangeKind.RENAME_COLUMN, "a", to="b"), ColumnChange(ChangeKind.RENAME_COLUMN, "b", to="a")
    )

    assert made is not None
    assert ([c.name for c in made.columns], made.primary_key) == (["b", "a"], ("b",))
    assert [c.nullable for c in made.columns] == [False, True]
