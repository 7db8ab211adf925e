"""A column's definition in SQL as the column that the catalogue would show.

What the text leaves open comes from the server's conventions and from the table's collation. In doubt there is no
column: the caller asks the catalogue then. A default in doubt stays as it is written. Source: MySQL manual, "CREATE
TABLE Statement", "Data Types".
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from cdc_core.schema.column_default import constant
from cdc_core.schema.column_text import ColumnParts, default_in, parts_of
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.conventions import Conventions, ServerCharset
from cdc_core.schema.ddl_words import NotUnderstood, Reader
from cdc_core.schema.declaration import declared_column
from cdc_core.schema.sql_text import Dialect
from cdc_core.schema.table import Column

_WIDTHS = {"tinyint": 4, "smallint": 6, "mediumint": 9, "int": 11, "bigint": 20}  # signed; unsigned is one less
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_STRINGS = ("char", "varchar", "enum", "set", *_TEXTS)
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_SHAPES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
           "geometrycollection")  # fmt: skip
_LIMITS = (255, 65535, 16777215, 4294967295)  # bytes of the four sizes of TEXT and BLOB
_PLAIN = ("date", "year", "json", *_BLOBS, *_SHAPES)
_MARIADB = ("inet4", "inet6", "uuid")
_WIDE = ("ucs2", "utf16", "utf16le", "utf32")
_HELD = dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32"), "\U0010ffff") | dict.fromkeys(
    ("utf8mb3", "utf8", "ucs2"), "\uffff"
)  # the last character of a set
_FRACTIONAL = ("time", "datetime", "timestamp")
_NOW = re.compile(r"CURRENT_TIMESTAMP(?:\(\d\))?")


def column_of(name: str, definition: str, collation: str, conventions: Conventions) -> Column | None:
    """The column; None where the text is not enough for more than its default. `collation` is the table's, "" where it
    is not known."""
    try:
        reader = Reader(definition, Dialect(mariadb=conventions.mariadb))
        return _column(name, parts_of(reader, mariadb=conventions.mariadb), collation, conventions)
    except (NotUnderstood, ValueError):
        return None


def default_of(column: Column, text: str, conventions: Conventions) -> Column | None:
    """The column with the default that `SET DEFAULT text` gives it; None where that is not known."""
    try:
        reader = Reader(text, Dialect(mariadb=conventions.mariadb))
        quoted = not reader.done and reader.words[0].string
        value, evaluated = default_in(reader)
    except (NotUnderstood, ValueError):
        return None
    return _with_default(column, value, conventions, evaluated=evaluated, quoted=quoted) if reader.done else None


def _with_default(
    column: Column, text: str | None, conventions: Conventions, *, evaluated: bool, quoted: bool
) -> Column:
    """The column with a default as the catalogue shows it, or as it is written where that is not known."""
    value, known = text, text is None or (evaluated and _is_expression(text, conventions))
    if text is not None and not evaluated:
        with suppress(NotUnderstood, ValueError):
            value, known = _constant(column, text, conventions, quoted=quoted), True
    return replace(column, default=value, default_expression=evaluated or not known, default_as_written=not known)


def _is_expression(text: str, conventions: Conventions) -> bool:
    """Whether the catalogue shows no constant for a default that only the server evaluates: MariaDB's does for one in
    parentheses."""
    return bool(_NOW.fullmatch(text)) or (text.startswith("(") and not conventions.mariadb)


def _constant(column: Column, text: str, conventions: Conventions, *, quoted: bool) -> str:
    if not conventions.modelled:
        raise NotUnderstood("its value depends on the session")
    _check_texts(text, conventions)
    _check_held(text, conventions.charset_by_id(column.charset), conventions)
    if column.type_code == ColumnType.BLOB and not conventions.mariadb:
        raise NotUnderstood("without strict mode the server leaves it out")
    return constant(column, text, quoted=quoted, strict=conventions.strict)


def _check_texts(text: str, conventions: Conventions) -> None:
    """Raises NotUnderstood for what the session's character sets may have made another text of."""
    most = {"all": "\U0010ffff", "bmp": "\uffff", "ascii": "\x7f", "none": ""}[conventions.texts]
    if any(letter > most or letter == "\ufffd" for letter in text):
        raise NotUnderstood("a text depends on the session's character sets")


def _check_held(text: str, charset: ServerCharset | None, conventions: Conventions) -> None:
    """Raises NotUnderstood for what the column's character set may not hold, in whose place the server puts `?`; and
    for a text that may have come as bytes (SET NAMES binary), which a wide set reads in twos or fours."""
    if charset and charset.name in _WIDE and text and conventions.texts in ("ascii", "none"):
        raise NotUnderstood("the text may be the bytes of another one")
    most = _HELD.get(charset.name, "\x7f") if charset else "\x7f"
    if any(letter > most for letter in text):
        raise NotUnderstood("the column's character set may not hold the text")


def _column(name: str, parts: ColumnParts, collation: str, conventions: Conventions) -> Column:
    if not conventions.modelled:
        raise NotUnderstood("what it means depends on the session")
    if parts.kind == "timestamp" and parts.nullable is None and not conventions.explicit_timestamps:
        raise NotUnderstood("whether it is nullable depends on the columns before it")
    if (
        parts.kind == "timestamp"
        and parts.default is None
        and not parts.nullable
        and not conventions.explicit_timestamps
    ):
        raise NotUnderstood("its default depends on the columns before it")
    for text in (*parts.labels, parts.comment):
        _check_texts(text, conventions)
    size = parts.sizes[0] if parts.sizes else 0
    charset, own = _charset(parts, collation, conventions)
    for label in parts.labels:
        _check_held(label, charset, conventions)
    declared, octets = _declared(parts, charset, conventions)
    column = declared_column(
        name,
        parts.kind,
        declared,
        "NO" if parts.nullable is False else "YES",
        parts.comment,
        own or None,
        octets,
        parts.sizes[0] if parts.kind == "decimal" else size or 1,
        parts.sizes[1] if len(parts.sizes) > 1 else 0,
        size,
        None,
        None,
        collations=conventions.collations,
    )
    column = replace(column, labels=parts.labels, generated=parts.generated)
    return _with_default(column, parts.default, conventions, evaluated=parts.evaluated, quoted=parts.quoted)


def _charset(parts: ColumnParts, table: str, conventions: Conventions) -> tuple[ServerCharset | None, str]:
    """A string's character set and its collation; changes CHAR CHARACTER SET binary into BINARY."""
    if parts.kind not in _STRINGS:
        return None, ""
    if parts.charset:
        charset = conventions.charset(parts.charset)
        collation = conventions.collation(parts.collation, charset.name if charset else "")
    else:
        base = conventions.charset_of(conventions.collation(table))
        collation = conventions.collation(parts.collation or table, base.name if base else "")
        charset = conventions.charset_of(collation)
    if charset is None or (parts.collation and not collation):
        raise NotUnderstood("the character set is not known")
    if charset.name == "binary":
        raise NotUnderstood("a string of bytes has another type")
    if parts.binary:
        collation = conventions.collation(f"{charset.name}_bin")
    return charset, collation or charset.collation


def _declared(parts: ColumnParts, charset: ServerCharset | None, conventions: Conventions) -> tuple[str, int]:
    """The type as the catalogue writes it, and the most bytes of a string. Completes the sizes."""
    kind, sizes, most = parts.kind, parts.sizes, charset.size if charset else 1
    sign = (" unsigned" if parts.unsigned else "") + (" zerofill" if parts.zerofill else "")
    if kind in _WIDTHS:
        width = sizes[0] if sizes else _WIDTHS[kind] - (parts.unsigned and kind != "bigint")
        shown = conventions.widths or parts.zerofill or (kind == "tinyint" and width == 1 and not parts.unsigned)
        return (f"{kind}({width})" if shown else kind) + sign, 0
    if kind == "decimal":
        parts.sizes = (*sizes, *(10, 0)[len(sizes) :])
        return f"decimal({parts.sizes[0]},{parts.sizes[1]}){sign}", 0
    if kind in ("float", "double"):
        if len(sizes) == 1:
            parts.kind, sizes = "float" if sizes[0] <= 24 else "double", ()
        return f"{parts.kind}({sizes[0]},{sizes[1]}){sign}" if sizes else parts.kind + sign, 0
    if kind in ("char", "varchar", "binary", "varbinary", "bit"):
        parts.sizes = sizes or (1,)
        if parts.sizes[0] * most > _LIMITS[1]:
            raise NotUnderstood("without strict mode it becomes a TEXT")
        return f"{kind}({parts.sizes[0]})", parts.sizes[0] * most
    if kind in ("enum", "set"):
        quoted = ",".join("'" + label.replace("'", "''") + "'" for label in parts.labels)
        return f"{kind}({quoted})", 0
    if kind in ("text", "blob") and sizes:
        grown = next(i for i, limit in enumerate(_LIMITS) if sizes[0] * most <= limit)
        parts.kind = (_TEXTS if kind == "text" else _BLOBS)[grown]
        return parts.kind, 0
    if kind in _FRACTIONAL:
        return f"{kind}({sizes[0]})" if sizes and sizes[0] else kind, 0
    if kind == "year":
        return "year(4)" if conventions.widths else "year", 0
    if kind in _PLAIN or kind in _TEXTS or (kind in _MARIADB and conventions.mariadb):
        return kind, 0
    raise NotUnderstood(f"type {kind}")
