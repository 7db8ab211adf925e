"""Turns the text of a key into a condition: the server looks its row up by an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.types as pt

from cdc_core.rows.columns.batch import arrow_type
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.sql import quote
from spark_jobs.verify.row_text import NULL, PLAIN_SCALE

_AT_ONCE = 500  # keys of one SELECT
_EXACT = Context(prec=65)  # digits that a DECIMAL has at most


def conditions(schema: TableSchema, keys: Iterable[bytes]) -> Iterator[str]:
    """One condition for each part of the keys. By a collation, other keys may fulfil it as well."""
    columns = {column.name: column for column in schema.shown}
    wanted = [columns[name] for name in schema.primary_key]
    part: list[str] = []
    for key in keys:
        part.append(_condition(wanted, key))
        if len(part) == _AT_ONCE:
            yield " OR ".join(part)
            part = []
    if part:
        yield " OR ".join(part)


def has_null(schema: TableSchema, key: bytes) -> bool:
    """Whether a key has a zero date, which is NULL in the lake: no condition finds its row."""
    columns = {column.name: column for column in schema.shown}
    return any(text is None for text in _texts([columns[name] for name in schema.primary_key], key))


def _condition(columns: list[Column], key: bytes) -> str:
    texts = _texts(columns, key)
    parts = [f"{quote(c.source_name)} = {_literal(c, text or b'')}" for c, text in zip(columns, texts, strict=True)]
    return f"({' AND '.join(parts)})"


def _texts(columns: list[Column], key: bytes) -> list[bytes | None]:
    """The text of each column in that of the key."""
    found: list[bytes | None] = []
    at = 0
    for column in columns:
        if _counted(arrow_type(column)) and key[at : at + 1] != NULL:
            colon = key.index(b":", at)
            at, end = colon + 1, colon + 1 + int(key[at:colon])
            found.append(key[at:end])
        else:
            end = key.find(b",", at)
            end = len(key) if end < 0 else end
            found.append(None if key[at:end] == NULL else key[at:end])
        at = end + 1
    return found


def _counted(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind))


def _literal(column: Column, text: bytes) -> str:
    kind = arrow_type(column)
    if pt.is_binary(kind):
        return f"X'{text.hex()}'"
    if pt.is_string(kind):
        return f"_utf8mb4 X'{text.hex()}'"
    plain = text.decode()
    if pt.is_floating(kind):
        return plain if "e" in plain else f"{plain}e0"
    if pt.is_decimal(kind) and kind.scale > PLAIN_SCALE:
        return f"{Decimal(plain).scaleb(-kind.scale, _EXACT):f}"
    if column.type_code == Type.TIME2:
        return f"'{_clock(int(plain))}'"
    return f"'{plain}'" if pt.is_temporal(kind) else plain


def _clock(micros: int) -> str:
    seconds, rest = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"
