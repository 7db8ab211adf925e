"""SQL literals of the lake's values: each compares at the source as the value that the lake received.

A literal has the column's own type: a text's bytes in the column's character set, ENUM, SET and BIT as numbers, moments
in UTC as text. A value that the source may hold in more than one form has no literal.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from cdc_core.charsets.charsets import charset
from cdc_core.charsets.east_asian import NAMES as EAST_ASIAN
from cdc_core.charsets.narrow import alphabet
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column

_INTEGERS = (Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG, Type.YEAR, Type.BIT)
_TEXTS = (Type.VARCHAR, Type.VAR_STRING, Type.STRING, Type.TINY_BLOB, Type.BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB)
_MOMENTS = (Type.DATETIME, Type.DATETIME2, Type.TIMESTAMP, Type.TIMESTAMP2)
_UNICODE = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "ascii": "ascii", "ucs2": "utf-16-be", "utf16": "utf-16-be",
    "utf16le": "utf-16-le", "utf32": "utf-32-be",
}  # fmt: skip
_INTRODUCERS = {"utf8mb3": "utf8mb4"}  # a name that MySQL 5.7 does not have


def plain(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that compare as the lake's: dates as days and moments as microseconds, since Python lacks some years."""
    kind = values.type
    if pa.types.is_date32(kind):
        return list(values.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(kind):
        return list(values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist())
    return list(values.to_pylist())


def literal(column: Column, value: Any) -> str | None:
    """Returns the literal of one of `plain`'s values in a column of the source. None for NULL, a type that may not
    compare exactly, a masked value, and one of more than one form there."""
    code = column.type_code
    if value is None or column.hidden or column.changes_values:
        return None
    if column.as_text or column.is_address:
        return f"'{value}'"
    if code in _INTEGERS:
        return str(int(value))
    if code == Type.NEWDECIMAL:
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if code in (Type.FLOAT, Type.DOUBLE):
        return _float(value)
    if code in (Type.DATE, Type.NEWDATE):
        return f"'{np.datetime64(int(value), 'D')}'"
    if code in _MOMENTS:
        return "'" + str(np.datetime64(int(value), "us")).replace("T", " ") + "'"
    if code in (Type.TIME, Type.TIME2):
        return f"'{_time(int(value))}'"
    if code == Type.ENUM:
        return _number_of_enum(column.labels, value)
    if code == Type.SET:
        return _number_of_set(column.labels, value)
    return _text(column, value) if code in _TEXTS else None


def _float(value: float) -> str:
    """With an exponent, without which the literal would be a decimal."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _time(micros: int) -> str:
    """TIME, which may be negative and longer than a day."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _number_of_enum(labels: Sequence[str], value: str) -> str | None:
    """Labels count from 1. The empty string is 0, an invalid value, unless a label is empty too."""
    if value == "":
        return None if "" in labels else "0"
    return str(labels.index(value) + 1) if labels.count(value) == 1 else None


def _number_of_set(labels: Sequence[str], value: str) -> str | None:
    """A bit for each label. With the 64th the server takes the number for a negative one, and finds nothing."""
    chosen = value.split(",") if value else []
    if "" in labels or any(labels.count(label) != 1 for label in chosen):
        return None
    number = sum(1 << labels.index(label) for label in chosen)
    return str(number) if number < 1 << 63 else None


def _text(column: Column, value: str | bytes) -> str | None:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    name = charset(column).name
    raw = _encoded(name, value)
    return None if raw is None else f"_{_INTRODUCERS.get(name, name)} X'{raw.hex()}'"


def _encoded(name: str, text: str) -> bytes | None:
    """Returns the only bytes of the character set that are read as this text; None if other bytes may be as well."""
    if name in EAST_ASIAN:
        return text.encode() if text.isascii() and "?" not in text else None
    if name in _UNICODE:
        try:
            return text.encode(_UNICODE[name])
        except UnicodeEncodeError:
            return None
    codes = _codes(name)
    found = [codes.get(character) for character in text]
    return None if None in found else bytes(code for code in found if code is not None)


@cache
def _codes(name: str) -> dict[str, int]:
    """Returns the byte of each character that has exactly one byte."""
    characters = alphabet(name)
    return {character: code for code, character in enumerate(characters) if characters.count(character) == 1}
