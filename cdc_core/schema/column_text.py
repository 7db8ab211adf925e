"""A column's definition in SQL, taken apart: what the text says, and nothing else.

Source: MySQL manual, "CREATE TABLE Statement", "Data Types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc_core.schema.ddl_words import NotUnderstood, Reader, Word

_SYNONYMS = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "int4": "int", "int8": "bigint",
    "middleint": "mediumint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "real": "double",
    "float4": "float", "float8": "double", "character": "char", "varcharacter": "varchar", "nchar": "char",
    "nvarchar": "varchar", "geomcollection": "geometrycollection",
}  # fmt: skip
_CONSTANT = re.compile(r"(?!0[xXbB])[0-9.]|[bB]'")
_LITERAL = re.compile(r"[xXbB]'|0[xXbB]")
_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


@dataclass(slots=True)
class ColumnParts:
    """What the text says. `nullable` None: nothing about NULL. `evaluated`: see `default_in`; `quoted`: the default is
    a string."""

    kind: str = ""
    sizes: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    charset: str = ""
    collation: str = ""
    binary: bool = False
    nullable: bool | None = None
    default: str | None = None
    evaluated: bool = False
    quoted: bool = False
    generated: bool = False
    comment: str = ""


def parts_of(reader: Reader, *, mariadb: bool) -> ColumnParts:
    """Reads to the end. Raises NotUnderstood, and ValueError for a size that is no number."""
    parts = _type(reader, mariadb=mariadb)
    while not reader.done:
        _attribute(reader, parts)
    return parts


def default_in(reader: Reader) -> tuple[str | None, bool]:
    """The text of a constant or of an expression, and whether it is one, or a constant that only the server reads.
    Those of the present time are spelled alike; other expressions are in parentheses, but on MariaDB."""
    if reader.take("NULL"):
        return None, False
    if reader.sees("("):
        first = reader.at
        reader.skip()
        return reader.text(first, reader.at), True
    if reader.sees_any(*_NOW):
        return _now(reader), True
    first = reader.at
    sign = "-" if reader.take("-") else ""
    if not sign:
        reader.take("+")
    point = "." if reader.take(".") else ""
    word = reader.word()
    value = {"TRUE": "1", "FALSE": "0"}.get(word.keyword, point + word.text)
    plain = word.string or (not word.quoted and _CONSTANT.match(value))
    if _skip_rest(reader, word) or not plain:
        return reader.text(first, reader.at), True
    return sign + value, False


def _skip_rest(reader: Reader, word: Word) -> bool:
    """Goes over what belongs to a default's first word: arguments, the text after a character set or a type, further
    strings, the name of a sequence. Whether there is any."""
    first = reader.at
    if word.keyword in ("NEXT", "PREVIOUS") and reader.take("VALUE", "FOR"):
        reader.table("")
    while not reader.done and (reader.sees("(") or _is_literal(reader.words[reader.at])):
        reader.skip()
    return reader.at > first


def _is_literal(word: Word) -> bool:
    return word.string or bool(_LITERAL.match(word.text))


def _type(reader: Reader, *, mariadb: bool) -> ColumnParts:
    parts = ColumnParts()
    national = reader.take("NATIONAL")
    word = reader.word().keyword.lower()
    if word == "long":
        word = "mediumblob" if reader.take("VARBINARY") else "mediumtext"
        reader.take("VARCHAR")
    if word == "double":
        reader.take("PRECISION")
    if word in ("char", "character", "nchar") and reader.take("VARYING"):
        word = "varchar"
    if national or word in ("nchar", "nvarchar"):
        parts.charset = "utf8"
    parts.kind = _SYNONYMS.get(word, word)
    if parts.kind in ("bool", "boolean"):
        parts.kind, parts.sizes = "tinyint", (1,)
    if parts.kind == "json" and mariadb:
        parts.kind, parts.charset, parts.collation = "longtext", "utf8mb4", "utf8mb4_bin"
    if reader.take("("):
        _arguments(reader, parts)
    return parts


def _arguments(reader: Reader, parts: ColumnParts) -> None:
    words = []
    while not reader.take(")"):
        words.append(reader.word())
    if parts.kind in ("enum", "set"):
        if any(not word.string for word in words[::2]):
            raise NotUnderstood("a label is not a plain string")
        parts.labels = tuple(word.text.rstrip(" ") for word in words[::2])
        if not all(label.isprintable() and "\\" not in label for label in parts.labels):
            raise NotUnderstood("the catalogue escapes a label")
    else:
        parts.sizes = tuple(int(word.text) for word in words[::2])


def _attribute(reader: Reader, parts: ColumnParts) -> None:
    match word := reader.word().keyword:
        case "UNSIGNED":
            parts.unsigned = True
        case "ZEROFILL":
            parts.unsigned = parts.zerofill = True
        case "BINARY":
            parts.binary = True
        case "ASCII":
            parts.charset = "latin1"
        case "CHARSET":
            parts.charset = reader.word().text
        case "CHARACTER" | "CHAR":
            reader.expect("SET")
            parts.charset = reader.word().text
        case "COLLATE":
            parts.collation = reader.word().text
        case "NOT":
            reader.expect("NULL")
            parts.nullable = False
        case "NULL":
            parts.nullable = True
        case "AUTO_INCREMENT":
            parts.nullable = False
        case "DEFAULT":
            first = reader.at
            parts.default, parts.evaluated = default_in(reader)
            parts.quoted = reader.words[first].string
        case "ON":
            reader.expect("UPDATE")
            _now(reader)
        case "COMMENT":
            parts.comment = reader.word().text
        case "PRIMARY":
            reader.take("KEY")
            parts.nullable = False
        case "UNIQUE":
            reader.take("KEY")
        case "SIGNED" | "KEY" | "VIRTUAL" | "STORED" | "PERSISTENT" | "VISIBLE" | "INVISIBLE" | "ENFORCED":
            pass
        case "GENERATED":
            reader.expect("ALWAYS")
        case "AS":
            parts.generated = True
            reader.skip()
        case "CHECK" | "COLUMN_FORMAT" | "STORAGE" | "SRID":
            reader.skip()
        case "REFERENCES":
            reader.at = len(reader.words)  # nothing else may follow
        case _:
            raise NotUnderstood(f"{word} is not known")


def _now(reader: Reader) -> str:
    if not reader.take_any(*_NOW):
        raise NotUnderstood("not the present time")
    fraction = ""
    if reader.take("("):
        fraction = "" if reader.sees(")") else reader.word().text
        reader.expect(")")
    return f"CURRENT_TIMESTAMP({fraction})" if fraction not in ("", "0") else "CURRENT_TIMESTAMP"
