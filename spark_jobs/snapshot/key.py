"""A table's key as the server stores it: the expression to select of each column, and the literal that compares as its
value.

A literal has the column's own type: a text's bytes after the introducer of its character set, so that the column's
collation decides; ENUM and BIT as the numbers by which the server orders them; a float with its exponent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.chunk import Bound
from spark_jobs.snapshot.sql import quote

_NUMBERED = (Type.ENUM, Type.BIT)
_FLOATS = (Type.FLOAT, Type.DOUBLE)
_NUMBERS = (Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG, Type.YEAR, Type.NEWDECIMAL)
_BYTES = (Type.VARCHAR, Type.VAR_STRING, Type.STRING, Type.TINY_BLOB, Type.BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB)
_INDEX = """
    SELECT column_name, sub_part, collation FROM information_schema.statistics
    WHERE table_schema = %s AND table_name = %s AND index_name = %s ORDER BY seq_in_index"""
_CHARSETS = """
    SELECT column_name, character_set_name FROM information_schema.columns
    WHERE table_schema = %s AND table_name = %s AND character_set_name IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """`literal` makes the SQL literal of what the server answers to `expression`."""

    name: str
    expression: str
    literal: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class Key:
    """A key whose index gives the rows in the order of its columns."""

    columns: tuple[KeyColumn, ...]

    @property
    def selected(self) -> str:
        return ", ".join(column.expression for column in self.columns)

    @property
    def order(self) -> str:
        return ", ".join(quote(column.name) for column in self.columns)

    def bound(self, answers: tuple[bytes, ...]) -> Bound:
        return tuple(column.literal(answer) for column, answer in zip(self.columns, answers, strict=True))


def ordered_key(connection: pymysql.Connection[Any], schema: TableSchema) -> Key | None:
    """Returns the table's key; None if it has no key, or if its index does not give the rows in its order: an index of
    prefixes or of a SET, or one that ascends in one column and descends in another. None also for a masked key: bounds
    are values of the source, which staged rows and errors would show."""
    if any(column.mask for column in schema.columns if column.name in schema.primary_key):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_INDEX, (schema.database, schema.table, schema.key_index))
        index = cursor.fetchall()
        cursor.execute(_CHARSETS, (schema.database, schema.table))
        charsets = {str(name): str(charset) for name, charset in cursor.fetchall()}
    prefixes = any(part is not None for _, part, _ in index)
    columns = {column.name: column for column in schema.columns}
    key = [columns[name] for name in schema.primary_key]
    if (
        [name for name, *_ in index] != [column.source_name for column in key]
        or prefixes
        or len({way for *_, way in index}) != 1
    ):
        return None
    found = [_key_column(column, charsets.get(column.source_name)) for column in key]
    return Key(tuple(column for column in found if column)) if all(found) else None


def _key_column(column: Column, charset: str | None) -> KeyColumn | None:
    """Returns the key's column, or None for a type whose values give no range of an index: SET, and types of no key."""
    name, code = quote(column.source_name), column.type_code
    if code in _NUMBERED:
        return KeyColumn(column.source_name, f"CAST({name} AS UNSIGNED)", bytes.decode)
    if code in _FLOATS:
        return KeyColumn(column.source_name, f"{name} * 1e0", _float)
    if code in _NUMBERS:
        shown = f"{name} + 0" if "zerofill" in column.column_type.lower() or code == Type.YEAR else name
        return KeyColumn(column.source_name, shown, bytes.decode)
    if code in _BYTES and not column.is_address:
        introducer = f"_{charset} " if charset else ""
        return KeyColumn(column.source_name, name, lambda answer: f"{introducer}X'{answer.hex()}'")
    if column.is_address or code in (Type.DATE, Type.TIME2, Type.DATETIME2, Type.TIMESTAMP2):
        return KeyColumn(column.source_name, name, lambda answer: f"'{answer.decode()}'")
    return None


def _float(answer: bytes) -> str:
    """With an exponent, without which the literal would be a decimal."""
    text = answer.decode()
    return text if "e" in text else f"{text}e0"
