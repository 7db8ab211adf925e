"""The text of a statement without its comments, as the server's own scanner sees it.

All quoted names are in backticks, whatever quotes them in the session's SQL mode. The text is not parsed.
Sources: MySQL manual, "Comments", "String Literals", "Server SQL Modes"; MariaDB knowledge base, "Comment Syntax".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20  # bits of the SQL mode, the same on all servers


@dataclass(frozen=True, slots=True)
class Dialect:
    """What decides how a server reads a text. In `/*M! ... */` only MariaDB sees more than a comment. `lower_case`: the
    server keeps names of tables in lower case (lower_case_table_names=1)."""

    mariadb: bool = False
    ansi_quotes: bool = False
    backslash_escapes: bool = True
    lower_case: bool = False

    @classmethod
    def of(cls, sql_mode: int, *, mariadb: bool) -> Dialect:
        return cls(mariadb, bool(sql_mode & _ANSI_QUOTES), not sql_mode & _NO_BACKSLASH_ESCAPES)


PLAIN = Dialect()
SHOWN = 1000  # characters of a statement that metadata keep
LARGE = 1 << 16  # characters from which on a statement is looked at before it is read
_OBJECT = re.compile(  # what is no table, and the words that may stand before it
    r"(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:(?:DEFINER\s*=|SQL\s+SECURITY|ALGORITHM\s*=|AGGREGATE\b).*?\s)?"
    r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:VIEW|TRIGGER|PROCEDURE|FUNCTION|EVENT|PACKAGE|LIBRARY)\b",
    re.DOTALL | re.IGNORECASE,
)


def readings(text: str, dialect: Dialect = PLAIN) -> tuple[str, str]:
    """The statement if what is in its executable comments runs, and if none of it does; its strings are empty.

    Servers blank the mark of those that they do not run (`/* 99999 ...*/`), so the first is what ran. The second is for
    a reader who must be sure.
    """
    return _readings(text, dialect, keep_strings=False)


def defines_no_table(text: str, dialect: Dialect = PLAIN) -> bool:
    """Whether a text makes, changes or drops a view or a program of the server, by its first words alone."""
    return _OBJECT.match(beginnings(text, dialect)[0]) is not None


def what_ran(text: str, dialect: Dialect = PLAIN) -> str:
    """The statement as the server ran it, its strings as a session with backslash escapes writes them: it means the
    same under PLAIN, as do all its parts."""
    return _readings(text, dialect, keep_strings=True)[0]


def beginnings(text: str, dialect: Dialect = PLAIN, most: int = 1000) -> tuple[str, str]:
    """The first characters of both readings, about as many as `most`. The text is not scanned further."""
    return _readings(text, dialect, keep_strings=False, most=most)


def _readings(text: str, dialect: Dialect, *, keep_strings: bool, most: int | None = None) -> tuple[str, str]:
    run: list[str] = []
    skipped: list[str] = []
    at, inside, size = 0, False, 0
    for found in _tokens(dialect).finditer(text):
        if most is not None and size + found.start() - at > most:
            break
        kind = found.lastgroup
        if kind == "close" and not inside:
            continue
        kept = _string(found[0], dialect) if kind == "string" and keep_strings else _standing_for(found)
        plain = text[at : found.start()] + kept
        at = found.end()
        size += len(plain)
        run.append(plain)
        if not inside:
            skipped.append(plain)
        inside = kind == "open" or (inside and kind != "close")
    rest = text[at:] if most is None else text[at : at + max(0, most - size)]
    run.append(rest)
    if not inside:
        skipped.append(rest)
    both = "".join(run).strip(), "".join(skipped).strip()
    return both if keep_strings else (_opened(both[0]), _opened(both[1]))


def _string(written: str, dialect: Dialect) -> str:
    return written if dialect.backslash_escapes else written.replace("\\", "\\\\")


def _opened(text: str) -> str:
    """A query in parentheses from its first word on."""
    return text.lstrip("(").strip()


def _standing_for(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "name" if found[0][0] == '"':
            return "`" + found[0][1:-1].replace('""', '"').replace("`", "``") + "`"
        case "name" | "rest":
            return found[0]
        case "string":
            return "''"
        case _:
            return " "


@cache
def _tokens(dialect: Dialect) -> re.Pattern[str]:
    """All that is not plain text. `rest`: a quote or comment that is never closed; all from there on stays."""
    inner = r"[^{0}\\]++|{0}{0}|\\." if dialect.backslash_escapes else "[^{0}]++|{0}{0}"
    double = r'"(?:[^"]++|"")*+"'
    names = ["`(?:[^`]++|``)*+`", *([double] if dialect.ansi_quotes else [])]
    strings = ["'(?:" + inner.format("'") + ")*+'"]
    strings += [] if dialect.ansi_quotes else ['"(?:' + inner.format('"') + ')*+"']
    mark = "M?!" if dialect.mariadb else "!"
    return re.compile(
        rf"(?P<name>{'|'.join(names)})|(?P<string>{'|'.join(strings)})"
        rf"|(?P<open>/\*{mark}\d{{0,6}})|(?P<close>\*/)"
        rf"|(?P<comment>/\*(?!{mark}).*?\*/|--(?=[\s\0]|$)[^\n]*|\#[^\n]*)"
        rf"|(?P<rest>(?:[`'\"]|/\*).*)",
        re.DOTALL,
    )


_DEFAULT = re.compile(r"\b(DEFAULT)\s+(?:[-+]\s*)?(?:\.?\d(?:[\w.]|(?<=e)[-+])*|[bx]'')", re.IGNORECASE)
_LENGTH = (  # of a type
    r"\b(?:BIT|BOOL|(?:TINY|SMALL|MEDIUM|BIG)?INT|INTEGER|DEC(?:IMAL)?|NUMERIC|FIXED|FLOAT|DOUBLE|PRECISION|REAL"
    r"|N?(?:VAR)?CHAR|CHARACTER|VARYING|(?:VAR)?BINARY|BLOB|TEXT|TIME|DATETIME|TIMESTAMP|YEAR|VECTOR)"
    r"\s*\(\s*\d{1,5}\s*(?:,\s*\d{1,2}\s*)?\)"
)
_NUMBER = re.compile(r"\b(?<![$`])\d[\w.]*|\b[bnx](?='')", re.IGNORECASE)
_OTHER_NUMBER = re.compile(rf"({_LENGTH}|`(?:[^`]|``)*`)|\b(?<!\$)\d(?:[\w.]|(?<=e)[-+])*", re.IGNORECASE)


def without_values(text: str, dialect: Dialect | None) -> str:
    """A DDL statement without its strings, comments and default values: of a table with values that nobody may see. Of
    its numbers the lengths of types stay; others, as in conditions and partitions, are 0. Where its `dialect` is not
    known, it ends before the first quote."""
    plain = _DEFAULT.sub(r"\1 ''", _without_strings(text, dialect))
    return _OTHER_NUMBER.sub(lambda found: found[1] or "0", plain).strip()


def without_literals(text: str, dialect: Dialect | None) -> str:
    """The beginning of a statement that changes rows, without its strings and comments; all numbers are 0. Where its
    `dialect` is not known, it ends before the first quote."""
    return _NUMBER.sub("0", _without_strings(text, dialect)).strip()


def _without_strings(text: str, dialect: Dialect | None) -> str:
    if dialect is None:
        text = re.split(r"['\"]", text, maxsplit=1)[0]
    return _tokens(dialect or PLAIN).sub(lambda one: "" if one.lastgroup == "rest" else _standing_for(one), text)


_SECRET = re.compile(
    r"IDENTIFIED|PASSWORD|CONNECTION|SECRET|CREDENTIAL|OPTION_LIST|ACCESS_KEY|AUTH_STRING", re.IGNORECASE
)
_LITERAL = re.compile(
    r"'(?:[^'\\]|\\.|'')*(?:'|$)|\"(?:[^\"\\]|\\.|\"\")*(?:\"|$)|\b0x[0-9a-f]+", re.IGNORECASE | re.DOTALL
)


def shown(text: str, most: int) -> str:
    """The first `most` characters of a statement as logs, metadata and errors may show them. Where a word announces a
    secret (CONNECTION of a FEDERATED table, IDENTIFIED BY), all literals are left out: which of them it is, only a
    parser of every server's statements would know."""
    text = text[:most]
    return _LITERAL.sub("'***'", text) if _SECRET.search(text) else text
