"""How one server completes what a column's declaration leaves out: character sets, collations, display widths.

Source: MySQL manual, "Character Set Configuration", "Numeric Type Attributes"; MariaDB, "Supported Character Sets".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pymysql.cursors import Cursor
from pymysql.err import OperationalError

from cdc_core.schema.declaration import MARIADB
from cdc_core.schema.session_state import SessionState

_COLLATIONS = "SELECT collation_name, id, character_set_name FROM information_schema.collations WHERE id IS NOT NULL"
_FULL_NAMES = """
    SELECT full_collation_name, id, character_set_name FROM information_schema.collation_character_set_applicability
    WHERE id IS NOT NULL"""  # of MariaDB from 10.10 on, whose short names fit several character sets
_CHARSETS = "SELECT character_set_name, default_collate_name, maxlen FROM information_schema.character_sets"
_SETTINGS = "SELECT @@version, @@explicit_defaults_for_timestamp, @@collation_server"
_NOT_ASCII = {"", "ucs2", "utf16", "utf16le", "utf32", "swe7"}  # MySQL 5.7 makes empty labels of a UCS-2 session's
_WIDE, _NARROW = "utf8mb4", ("utf8mb3", "utf8")
_WITHOUT_WIDTHS = (8, 0, 19)


@dataclass(frozen=True, slots=True)
class ServerCharset:
    """A character set: its name, its default collation, the most bytes of a character."""

    name: str
    collation: str
    size: int


@dataclass(frozen=True, slots=True)
class Conventions:
    """`collations`: ids by name. `widths`: integers are declared with a width. `explicit_timestamps`: a TIMESTAMP is
    nullable unless it says otherwise; None where that is not known. The last three are a session's: whether its state
    is modelled, whether it is strict, and which strings mean what they say ("all", "bmp", "ascii", "none")."""

    mariadb: bool
    widths: bool
    explicit_timestamps: bool | None
    collations: Mapping[str, int]
    charsets: Mapping[str, ServerCharset]
    charset_names: Mapping[str, str]  # by collation
    server_collation: str = ""
    modelled: bool = True
    strict: bool = True
    texts: str = "all"

    def charset(self, name: str) -> ServerCharset | None:
        return self.charsets.get(name.lower()) or self.charsets.get(_other_name(name.lower()))

    def charset_of(self, collation: str) -> ServerCharset | None:
        return self.charset(self.charset_names.get(collation, ""))

    def charset_by_id(self, collation: int) -> ServerCharset | None:
        return next((self.charset_of(name) for name, number in self.collations.items() if number == collation), None)

    def collation(self, name: str, charset: str = "") -> str:
        """The collation's full name, "" for one that is not known."""
        name = name.lower()
        found = (name, _other_name(name), f"{charset}_{name}")
        return next((one for one in found if one in self.charset_names), "")


def read_collations(cursor: Cursor) -> dict[str, tuple[int, str]]:
    """Id and character set by the collation's name."""
    cursor.execute(_COLLATIONS)
    found = _by_name(cursor)
    if MARIADB in found:
        with suppress(OperationalError):
            cursor.execute(_FULL_NAMES)
            found |= _by_name(cursor)
    return found


def read_conventions(cursor: Cursor) -> Conventions:
    """Asks the server. Raises what pymysql raises."""
    found = read_collations(cursor)
    cursor.execute(_CHARSETS)
    charsets = {
        str(name): ServerCharset(str(name), str(collation), int(size)) for name, collation, size in cursor.fetchall()
    }
    cursor.execute(_SETTINGS)
    row = cursor.fetchone()
    version, explicit, server = row or ("", 0, "")
    mariadb = "mariadb" in str(version).lower()
    number = tuple(int(part) for part in re.findall(r"\d+", str(version))[:3])
    return Conventions(
        mariadb=mariadb,
        widths=mariadb or number < _WITHOUT_WIDTHS,
        explicit_timestamps=bool(int(explicit)),
        collations={name: number for name, (number, _) in found.items()},
        charsets=charsets,
        charset_names={name: charset for name, (_, charset) in found.items()},
        server_collation=str(server),
    )


def in_session(conventions: Conventions, session: SessionState | None) -> Conventions:
    """The conventions of a statement. Without a session those of a plain one: the text comes from no event."""
    if session is None:
        return conventions
    names = {number: name for name, number in conventions.collations.items()}
    charsets = conventions.charsets
    if (default := names.get(session.utf8mb4)) and _WIDE in charsets:
        charsets = {**charsets, _WIDE: replace(charsets[_WIDE], collation=default)}
    return replace(
        conventions,
        explicit_timestamps=session.explicit_timestamps,
        charsets=charsets,
        server_collation=names.get(session.server, conventions.server_collation),
        modelled=session.modelled,
        strict=session.strict,
        texts=_texts(session, conventions, names),
    )


def _by_name(cursor: Cursor) -> dict[str, tuple[int, str]]:
    return {str(name): (int(number), str(charset or "")) for name, number, charset in cursor.fetchall()}


def _other_name(name: str) -> str:
    """The same under the other name of the three byte UTF-8."""
    if name.startswith("utf8mb3"):
        return "utf8" + name.removeprefix("utf8mb3")
    return "utf8mb3" + name.removeprefix("utf8") if name == "utf8" or name.startswith("utf8_") else name


def _texts(session: SessionState, conventions: Conventions, names: dict[int, str]) -> str:
    used = {conventions.charset_names.get(names.get(one, ""), "") for one in (session.client, session.connection)}
    if used == {_WIDE}:
        return "all"
    if used <= {_WIDE, *_NARROW}:
        return "bmp"
    return "none" if used & _NOT_ASCII else "ascii"
