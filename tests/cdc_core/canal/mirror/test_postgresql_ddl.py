"""MySQL's DDL statements in PostgreSQL's language: what they become, and which are refused."""

from __future__ import annotations

import pytest

from cdc_core.canal.mirror.postgresql.ddl import translated
from cdc_core.canal.mirror.postgresql.sql import with_own_key, without_column
from cdc_core.canal.mirror.sql import Untranslatable

THERE = {
    "id": "MySQL: INT NOT NULL",
    "v": "MySQL: VARCHAR(10) DEFAULT 'x'",
    "e": "MySQL: ENUM('a','b')",
    "n": "MySQL: INT",
    "hand": "made by hand",
}


def said(sql: str, table: str = "t") -> list[str]:
    return translated(sql, "d", table, lambda _, name: THERE if name in ("t", "there") else {})


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE t, x.u", ['DROP TABLE IF EXISTS "d"."t"', 'DROP TABLE IF EXISTS "x"."u"']),
        ("TRUNCATE t", ['TRUNCATE TABLE "d"."t"']),
        ("CREATE INDEX i ON t (v)", []),
        ("ALTER TABLE t ADD INDEX (v), ENGINE=InnoDB, ADD FOREIGN KEY (n) REFERENCES o (id)", []),
        ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))", []),
        ("CREATE VIEW w AS SELECT 1", []),
        ("CREATE TEMPORARY TABLE t (id INT)", []),
        ("CREATE DATABASE d", []),
        ("GRANT SELECT ON d.* TO a", None),
        ("CREATE TABLE IF NOT EXISTS there (id INT)", []),
        ("ALTER TABLE IF EXISTS gone ADD c INT", []),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS ID INT, DROP COLUMN IF EXISTS gone", []),
        ("CREATE TABLE u LIKE x.o", [
            'CREATE SCHEMA IF NOT EXISTS "d"', 'CREATE TABLE "d"."u" (LIKE "x"."o" INCLUDING ALL)',
        ]),
        ("RENAME TABLE t TO x.u, u TO t", [
            'CREATE SCHEMA IF NOT EXISTS "x"', with_own_key('"d"."t"'), 'ALTER TABLE "d"."t" SET SCHEMA "x"',
            'ALTER TABLE "x"."t" RENAME TO "u"', 'ALTER TABLE "d"."u" RENAME TO "t"',
        ]),
        ("ALTER TABLE t RENAME COLUMN v TO w, RENAME TO u", [
            'ALTER TABLE "d"."t" RENAME COLUMN "v" TO "w"', 'ALTER TABLE "d"."t" RENAME TO "u"',
        ]),
        ("ALTER TABLE t DROP COLUMN V", [without_column('"d"."t"', "v")]),
        ("ALTER TABLE t ADD PRIMARY KEY (ID, v(5) DESC)", ['ALTER TABLE "d"."t" ADD PRIMARY KEY ("id", "v")']),
        ("ALTER TABLE t ALTER v SET DEFAULT 'it''s', ALTER n DROP DEFAULT", [
            """ALTER TABLE "d"."t" ALTER COLUMN "v" SET DEFAULT 'it''s'""",
            'ALTER TABLE "d"."t" ALTER COLUMN "n" DROP DEFAULT',
        ]),
        ("ALTER TABLE t COMMENT 'a''b'", ["""COMMENT ON TABLE "d"."t" IS 'a''b'"""]),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", []),
        ("ALTER TABLE t CHANGE V w TEXT", [
            'ALTER TABLE "d"."t" ALTER COLUMN "v" DROP DEFAULT', 'ALTER TABLE "d"."t" ALTER COLUMN "v" TYPE text',
            'ALTER TABLE "d"."t" ALTER COLUMN "v" DROP DEFAULT', 'ALTER TABLE "d"."t" RENAME COLUMN "v" TO "w"',
            """COMMENT ON COLUMN "d"."t"."w" IS 'MySQL: TEXT'""",
        ]),
        ("ALTER TABLE t MODIFY E ENUM('a','b','c') DEFAULT 'c'", [
            """ALTER TABLE "d"."t" ALTER COLUMN "e" SET DEFAULT 'c'""",
            'ALTER TABLE "d"."t" RENAME COLUMN "e" TO "E"',
            """COMMENT ON COLUMN "d"."t"."E" IS 'MySQL: ENUM(''a'',''b'',''c'') DEFAULT ''c'''""",
        ]),
        ("ALTER TABLE t ADD c INT UNSIGNED NOT NULL AFTER id", [
            """ALTER TABLE "d"."t" ADD COLUMN "c" bigint DEFAULT '0'""",
            'ALTER TABLE "d"."t" ALTER COLUMN "c" DROP DEFAULT',
            """COMMENT ON COLUMN "d"."t"."c" IS 'MySQL: INT UNSIGNED NOT NULL'""",
        ]),
    ],
)  # fmt: skip
def test_a_statement_becomes_others(sql: str, expected: list[str] | None) -> None:
    """Those that change no table become none; None: they are refused."""
    if expected is None:
        with pytest.raises(Untranslatable):
            said(sql)
    else:
        assert said(sql) == expected


def test_a_table_with_its_key_and_types() -> None:
    """NOT NULL, other indexes and AUTO_INCREMENT are left out; each definition is kept as a comment."""
    made = said(
        "CREATE TABLE u (Id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, d DECIMAL(9,2) DEFAULT 1.50, t TIMESTAMP(3) NULL, "
        "b BIT(4) DEFAULT b'101', KEY (d), PRIMARY KEY (id)) ENGINE=InnoDB COMMENT='people'",
        "u",
    )
    assert made[:2] == [
        'CREATE SCHEMA IF NOT EXISTS "d"',
        """CREATE TABLE "d"."u" ("Id" numeric(20,0), "d" numeric(9,2) DEFAULT '1.50', "t" timestamptz(3), """
        """"b" bigint DEFAULT '5', PRIMARY KEY ("Id"))""",
    ]
    assert made[2] == """COMMENT ON COLUMN "d"."u"."Id" IS 'MySQL: BIGINT UNSIGNED NOT NULL AUTO_INCREMENT'"""
    assert made[-1] == """COMMENT ON TABLE "d"."u" IS 'people'"""


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE TABLE u AS SELECT * FROM t", "which columns"),
        ("CREATE TABLE u (v VARCHAR(9)) CHARSET=binary", "character set binary"),
        ("CREATE TABLE u (v VARCHAR(9) DEFAULT (uuid()) FROBNICATE)", "not understood"),
        ("ALTER TABLE t FROBNICATE", "not understood"),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "changes rows"),
        ("ALTER TABLE t DROP PARTITION p", "changes rows"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", "character set latin1"),
        ("ALTER TABLE t MODIFY n TINYINT", "INT may change as TINYINT"),
        ("ALTER TABLE t MODIFY v ENUM('x')", "may change as"),
        ("ALTER TABLE t MODIFY e ENUM('A','b')", "may change as"),
        ("ALTER TABLE t MODIFY hand INT", 'source\'s definition of "hand" is not known'),
        ("ALTER TABLE t MODIFY gone INT", 'source\'s definition of "gone" is not known'),
        (f"ALTER TABLE t ADD {'c' * 64} INT", "more than 63 bytes"),
        ("DROP DATABASE public", "the mirror's own table"),
    ],
)
def test_what_has_no_equal_is_refused(sql: str, why: str) -> None:
    """With its reason; no part of the statement is given."""
    with pytest.raises(Untranslatable, match=why):
        said(sql)


@pytest.mark.parametrize(
    "definition",
    ["TIMESTAMP NOT NULL", "INT AUTO_INCREMENT", "DATETIME NOT NULL", "INT AS (id + 1)", "DATETIME DEFAULT NOW()",
     "DATE DEFAULT '24-1-2'", "TIMESTAMP NULL DEFAULT '2024-01-02 03:04:05'", "BINARY(4) NOT NULL", "YEAR DEFAULT 70",
     "DATE DEFAULT '0000-00-00'", "POINT NOT NULL", "JSON NOT NULL", "CHAR(36) DEFAULT (uuid())"],
)  # fmt: skip
def test_an_added_column_whose_values_are_not_said_needs_an_empty_table(definition: str) -> None:
    """What the rows of before get is known to the source alone."""
    first, second, *_ = said(f"ALTER TABLE t ADD c {definition}")
    assert first.startswith("DO ")
    assert 'EXISTS (SELECT FROM "d"."t")' in first
    assert second.startswith('ALTER TABLE "d"."t" ADD COLUMN "c"')
    assert "DEFAULT" not in second


@pytest.mark.parametrize(("table", "expected"), [("T", '"Shop"."T"'), ("t", '"shop"."t"')])
def test_names_as_the_source_keeps_them(table: str, expected: str) -> None:
    """The entry has the table's name as the source has it; the text as it was written."""
    assert said("TRUNCATE Shop.T", table) == [f"TRUNCATE TABLE {expected}"]


def test_columns_keep_their_case_where_tables_do_not() -> None:
    """lower_case_table_names is about tables and databases."""
    made = translated("ALTER TABLE T ADD Big INT", "D", "t", lambda _, __: {})
    assert made[0] == 'ALTER TABLE "d"."t" ADD COLUMN "Big" integer'
