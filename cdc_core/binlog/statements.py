"""What the text of a QUERY event means. Reads words, not SQL: comments and strings are taken out first.

Promises that no change of rows written as a statement goes unseen; in doubt a statement is CHANGE.
"""

from __future__ import annotations

import re
from enum import Enum, auto


class Meaning(Enum):
    """Of one statement in the binlog."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    ROLLBACK_TO = auto()
    SAVEPOINT = auto()
    XA_PART = auto()  # XA END: the transaction goes on
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()
    DDL = auto()
    CHANGE = auto()  # rows changed, with the statement instead of the rows in the binlog
    OTHER = auto()  # stands alone and changes no table: GRANT, FLUSH, ANALYZE


_NOISE = re.compile(
    r"""(?P<keep>`(?:[^`]|``)*`)|'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|/\*(?![!M]).*?\*/|--(?=\s|$)[^\n]*|\#[^\n]*
    |(?P<rest>(?:[`'"]|/\*(?![!M])).*)""",  # what is opened and never closed: looked for once, and all behind it stays
    re.DOTALL | re.VERBOSE,
)
_EXECUTABLE = re.compile(r"/\*M?!\d*(.*?)(?:\*/|\Z)", re.DOTALL)  # runs on the server, so its text counts
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
_CREATE_FROM = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?TABLE\b.*\bSELECT\b", re.DOTALL | re.IGNORECASE
)
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_NAME = r"(`(?:[^`]|``)+`|[\w$]+)"
_TARGET = re.compile(
    r"(?:(?:INSERT|REPLACE)(?:\s+(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE))*(?:\s+INTO)?"
    r"|UPDATE(?:\s+(?:LOW_PRIORITY|IGNORE))*|DELETE(?:\s+(?:LOW_PRIORITY|QUICK|IGNORE))*\s+FROM)"
    rf"\s*(?:{_NAME}\s*\.\s*)?{_NAME}\s*(?:\(|$|;|(?:SET|VALUES?|SELECT|WHERE|ORDER|LIMIT)\b)",
    re.IGNORECASE,
)


def bare(text: str) -> str:
    """The statement without comments, its strings emptied; quoted names stay."""
    text = _EXECUTABLE.sub(r" \1 ", text)
    return _NOISE.sub(lambda found: found["keep"] or found["rest"] or " ", text).strip().lstrip("(").strip()


def meaning(text: str) -> Meaning:
    """What a whole statement does, by its first words."""
    plain = bare(text)
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
    first = re.split(r"\W", words[0], maxsplit=1)[0]
    if first in _CHANGES or _CREATE_FROM.match(_QUOTED.sub(" ", plain)):
        return Meaning.CHANGE
    return Meaning.DDL if first in _DEFINES else Meaning.OTHER


def target(text: str, database: str) -> tuple[str, str] | None:
    """The one table that a change writes to; None when there may be several or it cannot be told."""
    found = _TARGET.match(bare(text))
    if found is None:
        return None
    owner, table = (None if name is None else name.strip("`").replace("``", "`") for name in (found[1], found[2]))
    return owner or database, table or ""
