"""What the text of a QUERY event means. Reads its first words, without comments and strings; it does not parse SQL.

No change of rows that is logged as a statement goes unseen: in doubt, a statement is a CHANGE.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from cdc_core.schema.sql_text import LARGE, PLAIN, Dialect, defines_no_table, readings


class Meaning(Enum):
    """What one statement of the binlog does."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    ROLLBACK_TO = auto()
    SAVEPOINT = auto()
    XA_PART = auto()  # XA END: the transaction goes on
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()
    DDL = auto()
    CHANGE = auto()  # changes rows, and the binlog has the statement in their place
    OTHER = auto()  # stands alone and changes no table: GRANT, FLUSH, ANALYZE


_CHANGES = {
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "LOAD",
    "WITH",
    "SELECT",
    "CALL",
    "DO",
    "TABLE",
    "VALUES",
    "IMPORT",
}
_DEFINES = {"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"}
_CREATE_FROM = re.compile(  # a name after a dot may be a reserved word
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?TABLE\b.*(?<![.\w$])(?:SELECT\b|TABLE\b|VALUES\s*(?:ROW\b\s*)?\()",
    re.DOTALL | re.IGNORECASE,
)
_DOT = re.compile(r"\s*\.\s*")
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_NAME = r"(`(?:[^`]|``)+`|[\w$]+)"
_TARGET = re.compile(
    r"(?:(?:INSERT|REPLACE)(?:\s+(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE))*(?:\s+INTO)?"
    r"|UPDATE(?:\s+(?:LOW_PRIORITY|IGNORE))*|DELETE(?:\s+(?:LOW_PRIORITY|QUICK|IGNORE))*\s+FROM)"
    rf"\s*(?:{_NAME}\s*\.\s*)?{_NAME}\s*(?:\(|$|;|(?:SET|VALUES?|SELECT|WHERE|ORDER|LIMIT)\b)",
    re.IGNORECASE,
)
# MySQL before 8.0.22 empties a MEMORY table so, when it is first used after a restart
_EMPTIED = re.compile(r"DELETE FROM `(?:[^`]|``)+`\.`(?:[^`]|``)+`")
# MariaDB runs what stands after these
_SET_STATEMENT = re.compile(r"SET\s+STATEMENT\b", re.IGNORECASE)
_FOR = re.compile(r"`(?:[^`]|``)*`|(?P<parenthesis>[()])|(?P<for>\bFOR\b)", re.IGNORECASE)
_OF_DATABASE = re.compile(r"\s*(?:CREATE|ALTER|DROP)\s+(?:DATABASE|SCHEMA)\b", re.IGNORECASE)
_FIRST = 4096  # characters of a statement in which its first words are looked for
_ANALYZE = re.compile(
    r"ANALYZE\s+(?!(?:LOCAL\s+|NO_WRITE_TO_BINLOG\s+)?TABLES?\b)(?:FORMAT\s*=\s*(?:\w+|'')\s*)?", re.IGNORECASE
)


def meaning(text: str, dialect: Dialect = PLAIN) -> Meaning:
    """What a whole statement does, by its first words."""
    if len(text) >= LARGE and defines_no_table(text, dialect):
        return Meaning.DDL
    run, skipped = (_meaning(_main(plain)) for plain in readings(text, dialect))
    for sure in (Meaning.CHANGE, Meaning.DDL):
        if sure in (run, skipped):
            return sure
    return run


def of_database(text: str) -> bool:
    """Whether a DDL statement makes, changes or drops a database."""
    return _OF_DATABASE.match(readings(text[:_FIRST])[0]) is not None


def target(text: str, database: str, dialect: Dialect = PLAIN) -> tuple[str, str] | None:
    """Database and table that a change writes to; None when there may be several tables, or the text does not say."""
    found = {_target(_main(plain)) for plain in readings(text, dialect) if plain}
    only = found.pop() if len(found) == 1 else None
    return only and (only[0] or database, only[1])


def _main(plain: str) -> str:
    """The statement behind MariaDB's SET STATEMENT ... FOR and ANALYZE, which run it."""
    while _SET_STATEMENT.match(plain):
        rest = _behind_for(plain)
        if rest is None:
            return "DO"  # nobody knows what it runs: a change
        plain = rest
    found = _ANALYZE.match(plain)
    return plain[found.end() :] if found else plain


def _behind_for(plain: str) -> str | None:
    depth = 0
    for found in _FOR.finditer(plain):
        if found["for"] and not depth:
            return plain[found.end() :].lstrip()
        depth += {"(": 1, ")": -1}.get(found[0], 0)
    return None


def _meaning(plain: str) -> Meaning:
    words = plain[:200].upper().rstrip(";").split()
    if not words:
        return Meaning.OTHER
    match words:
        case ["BEGIN"] | ["START", "TRANSACTION", *_] | ["XA", "START" | "BEGIN", *_]:
            return Meaning.BEGIN
        case ["COMMIT"]:
            return Meaning.COMMIT
        case ["ROLLBACK"]:
            return Meaning.ROLLBACK
        case ["ROLLBACK", "TO", *_] | ["ROLLBACK", "WORK", "TO", *_]:
            return Meaning.ROLLBACK_TO
        case ["SAVEPOINT" | "RELEASE", *_]:
            return Meaning.SAVEPOINT
        case ["XA", "END", *_]:
            return Meaning.XA_PART
        case ["XA", "COMMIT", *_]:
            return Meaning.XA_COMMIT
        case ["XA", "ROLLBACK", *_]:
            return Meaning.XA_ROLLBACK
    if _EMPTIED.fullmatch(plain):
        return Meaning.DDL
    first = re.split(r"\W", words[0], maxsplit=1)[0]
    if first in _CHANGES or _CREATE_FROM.match(_DOT.sub(".", _QUOTED.sub(" x ", plain))):
        return Meaning.CHANGE
    return Meaning.DDL if first in _DEFINES else Meaning.OTHER


def _target(plain: str) -> tuple[str, str] | None:
    """Database, empty where it is the default one, and table."""
    found = _TARGET.match(plain)
    if found is None:
        return None
    owner, table = (_unquoted(name or "") for name in found.groups())
    return owner, table


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
