"""What of a statement's text may be shown."""

from __future__ import annotations

import pytest

from cdc_core.schema.sql_text import PLAIN, Dialect, shown, without_literals, without_values


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE f (id INT) ENGINE=FEDERATED CONNECTION='mysql://u:geheim@h/d/t'",
        "CREATE TABLE f (id INT) ENGINE=FEDERATED CONNECTION='mysql://u:it''s \\' geheim@h/d/t' COMMENT 'x'",
        'ALTER TABLE f CONNECTION = "mysql://u:geheim@h/d/t"',
        "CREATE USER u IDENTIFIED BY 'geheim'",
        "GRANT ALL ON *.* TO u identified /* how */ by\n'geheim'",
        "ALTER USER u IDENTIFIED WITH x AS 0x67656865696d",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'geheim')",
        "CREATE TABLE c (id INT) ENGINE=CONNECT OPTION_LIST='User=u,Password=geheim'",
        "SET PASSWORD FOR u = 'geheim, and its end is cut",
    ],
)
def test_secrets_are_left_out(text: str) -> None:
    """Whatever the quotes, also of a text that is cut inside of them."""
    for most in range(len(text) + 1):
        assert "gehei" not in shown(text, most)
        assert "67656865" not in shown(text, most)
    assert shown(text, 1000).startswith(text[:6])


def test_other_statements_are_shown_as_they_are() -> None:
    """Up to the limit."""
    text = "ALTER TABLE t ADD c VARCHAR(9) DEFAULT 'x' COMMENT \"it's\""
    assert (shown(text, 1000), shown(text, 5)) == (text, "ALTER")


@pytest.mark.parametrize(
    ("dialect", "text", "there"),
    [
        (PLAIN, "ADD c VARCHAR(9) DEFAULT 'geheim'", "ADD c VARCHAR(9) DEFAULT ''"),
        (PLAIN, "ADD c VARCHAR(9) DEFAULT \"it's geheim\" NOT NULL", "ADD c VARCHAR(9) DEFAULT '' NOT NULL"),
        (PLAIN, "ADD c INT DEFAULT -4711, ADD d INT DEFAULT NULL", "ADD c INT DEFAULT '', ADD d INT DEFAULT NULL"),
        (PLAIN, "ADD c BINARY(4) DEFAULT 0x67656865", "ADD c BINARY(4) DEFAULT ''"),
        (PLAIN, "ADD c BIT(4) DEFAULT b'1010'", "ADD c BIT(4) DEFAULT ''"),
        (PLAIN, "ADD c DOUBLE DEFAULT - .47e-11", "ADD c DOUBLE DEFAULT ''"),
        (PLAIN, "ADD d INT DEFAULT (4711)", "ADD d INT DEFAULT (0)"),
        (PLAIN, "ADD c DECIMAL (10, 2), ADD CHECK (ssn <> 4711)", "ADD c DECIMAL (10, 2), ADD CHECK (ssn <> 0)"),
        (PLAIN, "PARTITION BY LIST (`4711`) (PARTITION p1 VALUES IN (4711))",
         "PARTITION BY LIST (`4711`) (PARTITION p1 VALUES IN (0))"),
        (None, "CREATE TABLE c47 SELECT * FROM t WHERE ssn = 4711", "CREATE TABLE c47 SELECT * FROM t WHERE ssn = 0"),
        (PLAIN, "ADD c INT /* geheim */ -- geheim", "ADD c INT"),
        (PLAIN, "ADD c VARCHAR(9) DEFAULT 'geheim", "ADD c VARCHAR(9) DEFAULT"),
        (PLAIN, "ADD c VARCHAR(9) DEFAULT 'a\\'geheim'", "ADD c VARCHAR(9) DEFAULT ''"),
        (Dialect(backslash_escapes=False), "ADD c TEXT DEFAULT '\\', ADD d TEXT", "ADD c TEXT DEFAULT '', ADD d TEXT"),
        (Dialect(ansi_quotes=True), "ADD \"c\" TEXT DEFAULT 'geheim'", "ADD `c` TEXT DEFAULT ''"),
        (PLAIN, "ADD `it's` TEXT DEFAULT 'geheim'", "ADD `it's` TEXT DEFAULT ''"),
        (None, "ADD c TEXT DEFAULT 'geheim', ADD d INT", "ADD c TEXT DEFAULT"),
    ],
)  # fmt: skip
def test_a_statement_without_its_values(dialect: Dialect | None, text: str, there: str) -> None:
    """Strings, numbers, defaults and comments go; names and types stay."""
    assert without_values(text, dialect) == there


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("INSERT INTO audit VALUES (4711, 'geheim', -4.7e11, .5)", "INSERT INTO audit VALUES (0, '', -0, .0)"),
        ("INSERT INTO t47 SET a=x'67', b=0x67, c=b'1'", "INSERT INTO t47 SET a=0'', b=0, c=0''"),
        ("UPDATE shop.`4711` SET ssn = 4711", "UPDATE shop.`4711` SET ssn = 0"),
        ("/* geheim */ DELETE FROM t WHERE ssn = 'geheim", "DELETE FROM t WHERE ssn ="),
        ('INSERT INTO t VALUES ("geheim")', "INSERT INTO t VALUES ('')"),
    ],
)
def test_a_change_without_its_literals(text: str, there: str) -> None:
    """Its form and its names are left."""
    assert without_literals(text, PLAIN) == there
