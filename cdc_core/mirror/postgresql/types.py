"""MySQL's column definitions in PostgreSQL: the type, the default, and the value of rows that are there already.

Source: PostgreSQL 15 manual, "Data Types"; MySQL manual, "Data Type Default Values".
"""

from __future__ import annotations

import re

from cdc_core.mirror.sql import Untranslatable
from cdc_core.schema.column_text import Parts, default_in, parts_of
from cdc_core.schema.ddl_words import NotUnderstood, Reader
from cdc_core.schema.sql_text import PLAIN

Value = str | bytes

_PLAIN = {
    "tinyint": "smallint", "smallint": "smallint", "mediumint": "integer", "int": "integer", "bigint": "bigint",
    "float": "real", "double": "double precision", "date": "date", "year": "smallint", "json": "jsonb", "uuid": "text",
    "inet4": "text", "inet6": "text", "enum": "text", "set": "text", "serial": "numeric(20,0)",
}  # fmt: skip
_UNSIGNED = {"tinyint": "smallint", "smallint": "integer", "mediumint": "integer", "int": "bigint",
             "bigint": "numeric(20,0)"}  # fmt: skip
TEXTS = ("tinytext", "text", "mediumtext", "longtext")
BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_GEOMETRY = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
             "geometrycollection")  # fmt: skip
_BYTES = ("binary", "varbinary", "vector", *BLOBS, *_GEOMETRY)
_MOMENTS = {"datetime": "timestamp({})", "timestamp": "timestamptz({})", "time": "interval({})"}
_OWN_VALUES = re.compile(r"\b(AUTO_INCREMENT|SERIAL|AS\s*\()", re.IGNORECASE)
_BITS = re.compile(r"[bB]'([01]+)'")
_CANONICAL = {  # how MySQL and PostgreSQL read the same value; zero dates are no dates there
    "date": re.compile(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d"),
    "datetime": re.compile(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d \d\d:\d\d:\d\d(\.\d{1,6})?"),
    "time": re.compile(r"-?\d{2,3}:\d\d:\d\d(\.\d{1,6})?"),
    "year": re.compile(r"\d{4}"),
}
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year")


def read(definition: str) -> Parts:
    """A definition, taken apart. Raises Untranslatable."""
    try:
        return parts_of(Reader(definition, PLAIN), mariadb=False)
    except (NotUnderstood, ValueError) as error:
        raise Untranslatable(f"{definition[:100]} is not understood: {error}") from error


def type_of(parts: Parts) -> str:
    """Raises Untranslatable for a type that is not known."""
    kind, size = parts.kind, parts.sizes[0] if parts.sizes else 0
    if is_bytes(parts):
        return "bytea"
    if kind == "decimal":
        return f"numeric({size or 10},{parts.sizes[1] if len(parts.sizes) > 1 else 0})"
    if kind == "bit":
        return "bigint" if size < 64 else "numeric(20,0)"
    if kind in ("char", "varchar"):
        return f"varchar({size or 1})"
    if kind in TEXTS:
        return "text"
    if kind in _MOMENTS:
        return _MOMENTS[kind].format(size)
    if kind == "float" and len(parts.sizes) == 1 and size > 24:
        return "double precision"
    if kind not in _PLAIN:
        raise Untranslatable(f"type {kind} is not known")
    return _UNSIGNED.get(kind, _PLAIN[kind]) if parts.unsigned else _PLAIN[kind]


def is_bytes(parts: Parts) -> bool:
    return parts.kind in _BYTES or (parts.kind in ("char", "varchar", *TEXTS) and parts.charset.lower() == "binary")


def default_of(parts: Parts) -> Value | None:
    """A constant default. None without one, and for one that PostgreSQL may read otherwise, as timestamps, which are in
    a session's time zone."""
    text = parts.default
    if text is None or parts.evaluated or parts.kind == "timestamp":
        return None
    if (form := _CANONICAL.get(parts.kind)) and not form.fullmatch(text):
        return None
    if bits := _BITS.fullmatch(text):
        return str(int(bits[1], 2))
    if is_bytes(parts):
        return text.encode()
    if parts.kind == "char":
        return text.rstrip(" ")
    labels = {label.lower(): label for label in parts.labels}
    if parts.kind == "set":
        chosen = {labels.get(one.lower(), one) for one in text.split(",")}
        return ",".join(label for label in parts.labels if label in chosen)
    return labels.get(text.lower(), text)


def default_in_sql(definition: str) -> str | None:
    """The value of SET DEFAULT, as it stands in a definition: None for NULL and for an expression."""
    try:
        value, evaluated = default_in(Reader(definition, PLAIN))
    except (NotUnderstood, ValueError) as error:
        raise Untranslatable(f"the default {definition[:100]} is not understood") from error
    return None if evaluated else value


def value_of_rows(parts: Parts, definition: str) -> tuple[Value | None, bool]:
    """What the rows get that a table has when the column is added, and whether the text says it."""
    unknown = None, False
    if parts.evaluated or parts.kind == "serial" or _OWN_VALUES.search(definition):
        return unknown
    if parts.default is not None:
        value = None if parts.kind == "binary" else default_of(parts)  # BINARY fills up
        return (value, True) if value is not None else unknown
    if parts.nullable or (parts.nullable is None and parts.kind != "timestamp"):
        return None, True
    return _implicit(parts)


def _implicit(parts: Parts) -> tuple[Value | None, bool]:
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


def declared(parts: Parts) -> str:
    """The type, as an operator reads it."""
    inner = ", ".join(map(repr, parts.labels or parts.sizes))
    return f"{parts.kind.upper()}{f'({inner})' if inner else ''}{' UNSIGNED' if parts.unsigned else ''}"
