"""The types of MySQL's columns in PostgreSQL. Source: PostgreSQL 15 manual, "Data Types"."""

from __future__ import annotations

from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.column_text import ColumnParts, parts_of
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


def read(definition: str) -> ColumnParts:
    """A definition, taken apart. Raises Untranslatable."""
    try:
        return parts_of(Reader(definition, PLAIN), mariadb=False)
    except (NotUnderstood, ValueError) as error:
        raise Untranslatable(f"{definition[:100]} is not understood: {error}") from error


def type_of(parts: ColumnParts) -> str:
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


def is_bytes(parts: ColumnParts) -> bool:
    return parts.kind in _BYTES or (parts.kind in ("char", "varchar", *TEXTS) and charset_of(parts) == "binary")


def charset_of(parts: ColumnParts) -> str:
    """What the definition says; empty: the table's."""
    return (parts.charset or parts.collation.partition("_")[0]).lower()


def declared(parts: ColumnParts) -> str:
    """The type, as an operator reads it."""
    inner = ", ".join(map(repr, parts.labels or parts.sizes))
    charset = f" CHARACTER SET {name}" if (name := charset_of(parts)) else ""
    return f"{parts.kind.upper()}{f'({inner})' if inner else ''}{' UNSIGNED' if parts.unsigned else ''}{charset}"
