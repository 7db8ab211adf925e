"""Random states of a session, and statements in it that add or change a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

_MODES = (
    "REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "ONLY_FULL_GROUP_BY", "NO_UNSIGNED_SUBTRACTION",
    "NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "NO_ZERO_IN_DATE",
    "NO_ZERO_DATE", "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO", "TRADITIONAL", "HIGH_NOT_PRECEDENCE",
    "NO_ENGINE_SUBSTITUTION", "PAD_CHAR_TO_FULL_LENGTH", "ANSI",
)  # fmt: skip
_OF = {
    "mariadb": ("ORACLE", "MSSQL", "DB2", "POSTGRESQL", "EMPTY_STRING_IS_NULL", "TIME_ROUND_FRACTIONAL", "MAXDB"),
    "5.7.22": ("MAXDB", "ORACLE", "POSTGRESQL"),
    "8.0.31": ("TIME_TRUNCATE_FRACTIONAL",),
    "9": ("TIME_TRUNCATE_FRACTIONAL",),
}
_CODECS = {"utf8mb4": "utf8", "utf8": "utf8", "latin1": "cp1252", "gbk": "gbk", "cp1251": "cp1251", "binary": "utf8"}
_CONNECTIONS = ("utf8mb4_general_ci", "latin1_swedish_ci", "utf8_bin", "cp1251_general_ci", "binary", "ucs2_general_ci")
_SETS = ("", "", "CHARACTER SET latin1", "CHARACTER SET utf8", "CHARACTER SET utf8mb4", "COLLATE utf8mb4_bin",
         "CHARACTER SET cp1251", "CHARACTER SET binary", "BINARY", "CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
         "CHARACTER SET ucs2")  # fmt: skip
_STRINGS = (
    "", "a", "A", "s", "S", "abc", "ab     ", "  ab", "ß", "é", "ж", "男", "😀", "C:\\new\\table", "a\\\\b", "it''s",
    "a\\nb", "a\\%b", "\\'", "a\\tb", "tab\t", 'say "x"', "NULL", "0", "1", "true", "`", "%s", "-- x", "/* x */", "7 ",
    "a,s", "s,a", "é,a",
)  # fmt: skip
_NUMBERS = ("0", "1", "-1", "+1", "7", "007", "1.5", "-2.5", "2.25", ".5", "1e2", "1.005e0", "TRUE", "FALSE", "b'101'",
            "0x41", "x'41'", "255", "256", "2.5", "1000000", "0.1", "99.995", "-0", "1.50", "N'a'", "_latin1'a'",
            "_utf8'é'", "_binary'a'")  # fmt: skip
_DATES = ("2024-02-29", "2024-02-30", "0000-00-00", "2024-01-00", "2024-01-01 10:11:12", "2024-01-01 10:11:12.987654",
          "1500-01-01", "20240101", "24-1-1", "2024-01-01T10:11:12", "2024-01-01 10:11:12+05:00", "10:11:12", "2024",
          "-10:00:00.5", "99", "2038-01-01 00:00:00", "1969-12-31 23:00:00")  # fmt: skip
_TEXTS = ("CHAR(3)", "VARCHAR(3)", "VARCHAR(20)", "CHAR(20)", "TINYTEXT", "TEXT", "NATIONAL VARCHAR(9)", "NCHAR(4)",
          "ENUM('a','s')", "ENUM('s','S')", "ENUM('1','2','a')", "ENUM('2','1','0')", "SET('a','s')", "SET('é','a')",
          "ENUM('é','e','a')", "ENUM('男','女')", "ENUM('C:\\new','a')")  # fmt: skip
_OTHERS = ("TINYINT", "TINYINT(1)", "BOOL", "SMALLINT UNSIGNED", "INT", "INT ZEROFILL", "BIGINT", "BIGINT UNSIGNED",
           "DECIMAL(5,2)", "DECIMAL(8,0)", "DECIMAL(10,4)", "FLOAT", "DOUBLE", "REAL", "FLOAT(9,2)", "FLOAT(30)",
           "DOUBLE(9,2)", "BIT(9)", "YEAR", "BINARY(3)", "VARBINARY(9)", "INT(5)", "MEDIUMINT", "SERIAL",
           "DOUBLE PRECISION", "DEC(5)", "LONG")  # fmt: skip
_MOMENTS = ("DATE", "TIME", "TIME(2)", "DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP(3)")
_ATTRIBUTES = ("", "", "", "NULL", "NOT NULL", "NOT NULL", "COMMENT 'see \\new'", "COMMENT 'é'", "UNIQUE KEY")
_FUNCTIONS = (
    "CURRENT_TIMESTAMP",
    "NOW()",
    "NOW ()",
    "(1+1)",
    "(UUID())",
    "NULL",
    "CURRENT_TIMESTAMP(3)",
    "(CURDATE())",
)
_VALUES = {
    "text": ("'a'", "'s'", "''", "' a '", "'é'", "'7'", "NULL"),
    "number": ("0", "1", "-1", "255", "9.5", "100", "NULL"),
    "moment": ("'2024-01-01 10:11:12.5'", "'2001-02-03'", "NULL"),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A table with rows, a session and a statement in it, as bytes of the client's character set."""

    create: str
    inserts: list[str]
    session: list[str]
    alter: bytes

    def __str__(self) -> str:
        return "; ".join([self.create, *self.inserts, *self.session, repr(self.alter)])


def trials(random: Random, count: int, version: str) -> Iterator[Trial]:
    for _ in range(count):
        yield _trial(random, version)


def _trial(random: Random, version: str) -> Trial:
    kind = random.choice(("text", "text", "text", "number", "moment"))
    client = random.choice(("utf8mb4", "utf8mb4", *_CODECS))
    old = _type(random, kind)
    charset = random.choice(("utf8mb4", "utf8mb4", "latin1", "utf8"))
    generated = ", g VARCHAR(60) AS (CONCAT(c)) " + random.choice(("VIRTUAL", "STORED"))
    columns = f"id INT PRIMARY KEY, c {old}" + (generated if random.random() < 0.3 else "")
    create = f"CREATE TABLE t ({columns}) DEFAULT CHARACTER SET {charset}"
    values = [random.choice(_VALUES[kind]) for _ in range(2)]
    inserts = [f"INSERT IGNORE INTO t (id, c) VALUES ({i}, {value})" for i, value in enumerate(values)]
    modes = random.sample(_MODES + _OF[version], random.choice((0, 1, 1, 2, 4)))
    if random.random() < 0.5:
        modes.append("STRICT_TRANS_TABLES")
    session = [f"SET NAMES {client}"]
    if random.random() < 0.3:
        session.append(f"SET SESSION collation_connection = {random.choice(_CONNECTIONS)}")
    if random.random() < 0.3:
        session.append(f"SET SESSION explicit_defaults_for_timestamp = {random.choice(('ON', 'OFF'))}")
    session.append(f"SET SESSION time_zone = '{random.choice(('+00:00', '+05:30', '-11:00'))}'")
    session.append(f"SET SESSION sql_mode = '{','.join(modes)}'")
    statement = f"ALTER TABLE t {_clause(random, kind)}"
    return Trial(create, inserts, session, statement.encode(_CODECS[client], "replace"))


def _clause(random: Random, kind: str) -> str:
    verb = random.choice(("ADD COLUMN n", "ADD COLUMN n", "MODIFY COLUMN c", "CHANGE COLUMN c d"))
    if not verb.startswith("ADD") and random.random() < 0.2:
        kind = random.choice(("text", "number", "moment"))
    default = f" DEFAULT {_default(random, kind)}" if random.random() < 0.7 else ""
    return f"{verb} {_type(random, kind)} {random.choice(_ATTRIBUTES)}{default}{random.choice(('', '', ' FIRST'))}"


def _type(random: Random, kind: str) -> str:
    if kind == "text":
        return f"{random.choice(_TEXTS)} {random.choice(_SETS)}"
    return random.choice(_OTHERS if kind == "number" else _MOMENTS)


def _default(random: Random, kind: str) -> str:
    if random.random() < 0.1:
        return random.choice(_FUNCTIONS)
    if random.random() < 0.25:
        return random.choice(_NUMBERS)
    plain = {"text": _STRINGS, "number": _NUMBERS, "moment": _DATES}[kind]
    chosen = random.choice(plain)
    quote = random.choice(("'", "'", "'", '"'))
    return chosen if kind == "number" and random.random() < 0.7 else f"{quote}{chosen}{quote}"
