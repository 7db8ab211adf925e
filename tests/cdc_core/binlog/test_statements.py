"""The meaning of statements, however they are written."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from cdc_core.binlog.statements import Meaning, meaning, target
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.sql_text import Dialect

ANSI = Dialect(ansi_quotes=True)
MARIADB = Dialect(mariadb=True)


@pytest.mark.parametrize("unit", ["/*", "'\\", '"\\', "/*!", "/*M!", "`", "``'", "-- ", "#", "(", " "])
def test_no_statement_takes_long(unit: str) -> None:
    """A megabyte of openings that are never closed is scanned quickly."""
    started = time.process_time()
    meaning(f"CREATE TABLE t (a INT) {unit * (1_000_000 // len(unit))}")
    assert time.process_time() - started < 30


BODY = "SET @a = 'x' + `b`; -- c\n" * 400_000  # ten million characters
PLAIN = BODY.replace("'", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"CREATE DEFINER=`root`@`%` PROCEDURE p() BEGIN {BODY} END", ((), True)),
        (f"/*!50003 CREATE*/ /*!50017 DEFINER=`r`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON u {BODY}*/", ((), True)),
        (f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW v AS SELECT '{PLAIN}'", ((), True)),
        (f"CREATE TABLE procedure (a INT) COMMENT '{PLAIN}'", ((), False)),
        (f"CREATE TABLE t (a INT /* {BODY} */)", ((), False)),
    ],
    ids=["procedure", "trigger", "view", "table", "comment"],
)
def test_a_large_statement_costs_little(text: str, expected: tuple[tuple[()], bool]) -> None:
    """What is no table is seen by its first words; one on tables is not taken apart, and so not understood."""
    tracemalloc.start()
    started = time.process_time()
    assert meaning(text) is Meaning.DDL
    assert effects(text, "d") == expected
    assert time.process_time() - started < 20
    assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE t (a INT COMMENT 'it''s /* no */ SELECT')", Meaning.DDL),
        ("CREATE TABLE t (a CHAR(1) DEFAULT '\\') SELECT 1", Meaning.CHANGE),  # with NO_BACKSLASH_ESCAPES that is
        ("/* INSERT */ TRUNCATE t", Meaning.DDL),
        ("/*!40000 ALTER TABLE t DISABLE KEYS */", Meaning.DDL),
        ("/*!50003 INSERT INTO t SELECT 1", Meaning.CHANGE),
        ("CREATE TABLE `a'b` LIKE t # 'SELECT", Meaning.DDL),
        ("/* never closed", Meaning.OTHER),
        ("/* a /*! b */ INSERT INTO t VALUES (1)", Meaning.CHANGE),
        ("/*!99999 CREATE */ INSERT INTO t VALUES (1)", Meaning.CHANGE),
        ("/*!99999 INSERT INTO t VALUES (1) */", Meaning.CHANGE),
        ("/*!99999 GRANT */ DROP TABLE t", Meaning.DDL),
        ("CREATE TABLE t (a INT) /* 99999 SELECT 1 */", Meaning.DDL),  # the server has blanked what it did not run
    ],
)
def test_what_is_in_strings_and_comments_does_not_count(text: str, expected: Meaning) -> None:
    """Strings and comments do not count, except executable comments. In doubt a statement is a change."""
    assert meaning(text) is expected


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("CREATE TABLE t (a INT) /*M!100000 SELECT 1 */", Dialect(), Meaning.DDL),
        ("CREATE TABLE t (a INT) /*M!100000 SELECT 1 */", MARIADB, Meaning.CHANGE),
        ("/*M!100000 CREATE */ INSERT INTO t VALUES (1)", Dialect(), Meaning.CHANGE),
        ("CREATE TABLE t (a CHAR(1) DEFAULT '\\') SELECT 1", Dialect(backslash_escapes=False), Meaning.CHANGE),
        ("CREATE TABLE t (a CHAR(9) DEFAULT '\\' SELECT ')", Dialect(), Meaning.DDL),
        ('CREATE TABLE "a SELECT b" (a INT)', ANSI, Meaning.DDL),
        ('CREATE TABLE t (a CHAR(9) DEFAULT "SELECT")', Dialect(), Meaning.DDL),
    ],
)
def test_the_server_and_its_sql_mode_decide_how_a_text_is_read(text: str, dialect: Dialect, expected: Meaning) -> None:
    """`/*M!` is a comment on MySQL; backslashes and double quotes mean what the session's SQL mode says."""
    assert meaning(text, dialect) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE x TABLE y", Meaning.CHANGE),
        ("CREATE TABLE x AS (TABLE y)", Meaning.CHANGE),
        ("CREATE TABLE x VALUES ROW(1)", Meaning.CHANGE),
        ("CREATE TABLE x AS VALUES (1)", Meaning.CHANGE),
        ("CREATE TABLE x (a INT) REPLACE SELECT 1", Meaning.CHANGE),
        ("CREATE TABLE shop.select (a INT)", Meaning.DDL),
        ("CREATE TABLE shop . table (a INT)", Meaning.DDL),
        ("CREATE TABLE p (a INT) PARTITION BY LIST (a) (PARTITION q VALUES IN (1))", Meaning.DDL),
        ("CREATE TABLE x LIKE y", Meaning.DDL),
    ],
)
def test_a_table_made_from_rows_is_a_change(text: str, expected: Meaning) -> None:
    """CREATE TABLE with SELECT, TABLE or VALUES holds rows. These words in names and partitions do not."""
    assert meaning(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET STATEMENT a=1 FOR INSERT INTO t VALUES (1)", Meaning.CHANGE),
        ("set statement a=(SELECT 1 FOR UPDATE), b=2 for ALTER TABLE t ADD c INT", Meaning.DDL),
        ("SET STATEMENT a=1 FOR SET STATEMENT b=1 FOR CREATE TABLE t (a INT)", Meaning.DDL),
        ("SET STATEMENT a=1 FOR GRANT SELECT ON *.* TO u", Meaning.OTHER),
        ("SET STATEMENT a=(1", Meaning.CHANGE),
        ("SET PASSWORD = ''", Meaning.OTHER),
        ("ANALYZE FORMAT=JSON UPDATE t SET a = 1", Meaning.CHANGE),
        ("ANALYZE INSERT INTO t VALUES (1)", Meaning.CHANGE),
        ("ANALYZE NO_WRITE_TO_BINLOG TABLE t", Meaning.OTHER),
        ("ANALYZE TABLE t PERSISTENT FOR ALL", Meaning.OTHER),
    ],
)
def test_the_statement_that_another_one_runs_counts(text: str, expected: Meaning) -> None:
    """MariaDB's SET STATEMENT and ANALYZE run the statement behind them."""
    assert meaning(text, MARIADB) is expected


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ('INSERT INTO "t" VALUES (1)', ANSI, ("shop", "t")),
        ('INSERT INTO "o""x"."a`b" VALUES (1)', ANSI, ('o"x', "a`b")),
        ("INSERT INTO ```a` VALUES (1)", Dialect(), ("shop", "`a")),
        ("SET STATEMENT a=1 FOR INSERT INTO t VALUES (1)", MARIADB, ("shop", "t")),
        ("ANALYZE FORMAT=JSON UPDATE o.t SET a = 1", MARIADB, ("o", "t")),
        ("INSERT /*! IGNORE */ INTO t VALUES (1)", Dialect(), ("shop", "t")),
        ("/*!50000 INSERT INTO t VALUES (1) */", Dialect(), ("shop", "t")),
        ("INSERT INTO /*!99999 u */ t VALUES (1)", Dialect(), None),
        ('INSERT INTO "t" VALUES (1)', Dialect(), None),
    ],
)
def test_the_table_of_a_change(text: str, dialect: Dialect, expected: tuple[str, str] | None) -> None:
    """The table is named only where every reading of the text gives the same one."""
    assert target(text, "shop", dialect) == expected
