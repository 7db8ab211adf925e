"""Names of tables, whatever characters they have: in full as one text, and escaped where few characters are allowed.

Names are those of MySQL's manual, "Schema Object Names": in quotes, up to 64 characters of the Basic Multilingual
Plane but NUL. Pure functions, each with its reverse.
"""

from __future__ import annotations

import re

_QUOTED = re.compile(r"`((?:[^`]|``)+)`\.(.+)", re.DOTALL)


def full_name(database: str, table: str) -> str:
    """`database.table`. A database whose name has a dot, or begins with a backtick, is quoted in backticks as in SQL:
    the first dot outside of them ends it."""
    if "." in database or database.startswith("`"):
        database = "`" + database.replace("`", "``") + "`"
    return f"{database}.{table}"


def split_name(name: str) -> tuple[str, str]:
    """Database and table of a full name. Raises ValueError for a text that does not have both."""
    if quoted := _QUOTED.fullmatch(name):
        return quoted[1].replace("``", "`"), quoted[2]
    database, _, table = name.partition(".")
    if not database or not table:
        raise ValueError(f"{name!r} names no database and table; write it as database.table")
    return database, table


def escaped(text: str, odd: re.Pattern[str], mark: str) -> str:
    """The text with what `odd` matches as `mark` and four hexadecimal digits for each UTF-16 unit, as MySQL does with
    `@` in names of files (manual, "Mapping of Identifiers to File Names")."""
    return odd.sub(lambda found: "".join(f"{mark}{unit}" for unit in _units(found[0])), text)


def unescaped(text: str, mark: str) -> str:
    """The reverse of `escaped`, where `odd` matches each mark before four hexadecimal digits."""
    marks = re.compile(f"(?:{re.escape(mark)}[0-9a-f]{{4}})+")
    return marks.sub(lambda found: bytes.fromhex(found[0].replace(mark, "")).decode("utf-16-be"), text)


def _units(text: str) -> list[str]:
    digits = text.encode("utf-16-be").hex()
    return [digits[at : at + 4] for at in range(0, len(digits), 4)]
