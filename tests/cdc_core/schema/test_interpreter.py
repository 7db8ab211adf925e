"""Definitions after DDL statements, compared with what the catalogue of real servers then shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="INT DEFAULT f(1)"),
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="INT DEFAULT 'many'"),
        ColumnChange(ChangeKind.ADD_COLUMN, "c", definition="DOUBLE(9,2) DEFAULT 1.234"),
        ColumnChange(ChangeKind.KEY, columns=("not_there",)),
        ColumnChange(ChangeKind.CHARSET, definition="klingon"),
    ],
)
def test_what_the_text_does_not_say_is_not_guessed(change: ColumnChange) -> None:
    """A clause that is unknown, does not fit the definition, or depends on a collation that is not known."""
    assert altered(change) is None


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
