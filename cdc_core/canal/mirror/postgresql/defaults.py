"""Constant defaults of MySQL's columns in PostgreSQL, and the values of rows that are there when a column is added.

A default counts here if both servers read its text as the same value, whatever the source's SQL mode is. Source: MySQL
manual, "Data Type Default Values", "String Literals", "The ENUM Type"; PostgreSQL 15 manual, "Constants".
"""

from __future__ import annotations

import re
from itertools import pairwise

from cdc_core.canal.mirror.postgresql.types import BLOBS, TEXTS, Value, is_bytes
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.column_text import ColumnParts, default_in
from cdc_core.schema.ddl_words import NotUnderstood, Reader
from cdc_core.schema.sql_text import PLAIN

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "decimal", "float", "double", "bit", "year")
_OWN_VALUES = re.compile(r"\b(AUTO_INCREMENT|SERIAL|AS\s*\()", re.IGNORECASE)
_BITS = re.compile(r"[bB]'([01]+)'")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_FORMS = {  # zero dates are none at PostgreSQL
    "date": re.compile(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d"),
    "datetime": re.compile(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d \d\d:\d\d:\d\d(?:\.(\d{1,6}))?"),
    "time": re.compile(r"-?\d{2,3}:\d\d:\d\d(?:\.(\d{1,6}))?"),
    "year": re.compile(r"\d{4}"),
}
_DIGITS = {"float": 6, "double": 15}  # that a value keeps as it is written


def default_of(parts: ColumnParts, definition: str) -> Value | None:
    """A constant default. None without one, and for one that the servers may read otherwise, as timestamps, which are
    in a session's time zone."""
    text = parts.default
    if text is None or parts.evaluated or "\\" in definition or "\0" in text:
        return None
    is_string = _is_string(definition)
    if is_bytes(parts):
        return text.encode() if is_string and text.isascii() and parts.kind not in ("binary", "char") else None
    if parts.kind == "bit" and not is_string and (bits := _BITS.fullmatch(text)):
        return str(int(bits[1], 2))
    if not _reads_same(text, parts, is_string=is_string):
        return None
    return text.rstrip(" ") if parts.kind == "char" else text


def default_in_sql(definition: str) -> str | None:
    """The value of SET DEFAULT, as it stands in a definition: None for NULL and for an expression."""
    try:
        value, evaluated = default_in(Reader(definition, PLAIN))
    except (NotUnderstood, ValueError) as error:
        raise Untranslatable(f"the default {definition[:100]} is not understood") from error
    return None if evaluated else value


def value_of_rows(parts: ColumnParts, definition: str) -> tuple[Value | None, bool]:
    """What the rows get that a table has when the column is added, and whether the text says it."""
    unknown = None, False
    if parts.evaluated or parts.kind == "serial" or _OWN_VALUES.search(definition):
        return unknown
    if parts.default is not None:
        value = default_of(parts, definition)
        return (value, True) if value is not None else unknown
    if parts.nullable or (parts.nullable is None and parts.kind != "timestamp"):
        return None, True
    return _implicit(parts)


def _implicit(parts: ColumnParts) -> tuple[Value | None, bool]:
    """The value of a column without NULL and without a default."""
    if parts.kind in _NUMBERS:
        return "0", True
    if parts.kind == "time":
        return "00:00:00", True
    if parts.kind == "enum":
        return parts.labels[0], True
    if parts.kind in ("char", "varchar", "varbinary", "set", *TEXTS, *BLOBS):
        return b"" if is_bytes(parts) else "", True
    return None, False


def _is_string(definition: str) -> bool:
    words = Reader(definition, PLAIN).words
    values = [value for word, value in pairwise(words) if word.keyword == "DEFAULT"]
    return len(values) == 1 and values[0].string


def _reads_same(text: str, parts: ColumnParts, *, is_string: bool) -> bool:
    kind = parts.kind
    if kind in ("char", "varchar", *TEXTS):
        return is_string or _is_integer(text)
    if kind in ("enum", "set"):
        chosen = [text] if kind == "enum" else text.split(",")
        return is_string and chosen == [one for one in parts.labels if one in chosen]
    if kind in _FORMS:
        return _fits(_FORMS[kind].fullmatch(text), parts.sizes)
    if kind in _DIGITS:
        return _is_number(text) and not parts.sizes and len(re.sub(r"\D", "", text)) <= _DIGITS[kind]
    if kind == "decimal":
        return _is_number(text)
    return (kind in _INTEGERS or (kind == "bit" and not is_string)) and _is_integer(text)


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and text != "-0"


def _is_integer(text: str) -> bool:
    return _is_number(text) and "." not in text


def _fits(found: re.Match[str] | None, sizes: tuple[int, ...]) -> bool:
    """Whether a moment has no more digits of a second than its column."""
    fraction = "" if found is None or found.re.groups == 0 else found[1] or ""
    return found is not None and len(fraction) <= (sizes[0] if sizes else 0)
