"""The labels of ENUM and SET as text: `0x` and digits where the bytes of one are no text in the character set.

Servers take any bytes for a label (`ENUM(0xE4,'b')` in utf8mb4). Only a TABLE_MAP with full metadata has them whole:
the catalogue shows nothing or `?` in their place, and MySQL 5.7 may cut the list there.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"x'((?:[0-9a-f]{2})*)'|'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ONE = r"(?:x'[0-9a-f]*'|'(?:[^'\\]|''|\\.)*')"
_LIST = re.compile(rf"(?:enum|set)\(({_ONE}(?:,{_ONE})*)\)", re.DOTALL | re.IGNORECASE)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "0": "\0"}


def hexadecimal(raw: bytes) -> str:
    """The form of a label that is no text: as MySQL takes it in a declaration."""
    return f"0x{raw.hex().upper()}"


def declared_labels(declared: str) -> tuple[str, ...]:
    """The labels in `information_schema.columns.column_type`; none for other types, and for a list that is cut."""
    found = _LIST.match(declared)
    return tuple(_label(*one) for one in _LABEL.findall(found[1])) if found else ()


def _label(digits: str, text: str) -> str:
    """MySQL 8 shows what is no text in a binary column by its digits. All servers escape control characters."""
    if digits:
        return hexadecimal(bytes.fromhex(digits))
    return unescaped(text)


def unescaped(text: str) -> str:
    """A text of the catalogue as it is. MariaDB escapes defaults in the same way."""
    return _ESCAPED.sub(lambda found: "'" if found[1] is None else _CONTROLS.get(found[1], found[1]), text)
