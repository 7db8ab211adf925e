"""Decides whether a column's values stay the same when its definition changes: pure.

Only conversions that are known to keep each value are returned. Some keep every value but those of a certain kind: a
number out of the new range, a text that is too long, a NULL. Such a conversion has a condition in SQL, and a table with
a row that fulfils it must be copied. Source: MySQL manual, "ALTER TABLE Statement", "Data Types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cdc_core.charsets.charsets import charset
from cdc_core.errors import SchemaError
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column

_BITS = {Type.TINY: 8, Type.SHORT: 16, Type.INT24: 24, Type.LONG: 32, Type.LONGLONG: 64}
_TEXTS = (Type.STRING, Type.VARCHAR, Type.VAR_STRING, Type.BLOB)
_FRACTIONS = (Type.TIMESTAMP2, Type.DATETIME2, Type.TIME2)
_FLOATS = (Type.FLOAT, Type.DOUBLE)
_BINARY = 63
_SUPERSETS = {("utf8mb3", "utf8mb4"), ("ascii", "utf8mb3"), ("ascii", "utf8mb4"), ("ascii", "latin1")}
_LENGTH = re.compile(r"\((\d+)\)")


@dataclass(frozen=True, slots=True)
class LosslessConversion:
    """Each value stays as it is in rows where none of the conditions holds. `{}` in a condition is the column."""

    unless: tuple[str, ...] = ()


def conversion(before: Column, after: Column) -> LosslessConversion | None:
    """Returns the conversion, or None if a value may change."""
    kept = _values(before, after)
    if kept is not None and before.nullable and not after.nullable:
        return LosslessConversion((*kept.unless, "{} IS NULL"))
    return kept


def _values(before: Column, after: Column) -> LosslessConversion | None:
    if (before.mask, before.cast) != (after.mask, after.cast):
        return None
    if _plain(before) == _plain(after):
        return LosslessConversion()
    if before.mask:  # the lake cannot ask its values
        return None
    if before.is_address or after.is_address or before.as_text or after.as_text:
        return None
    old, new = before.type_code, after.type_code
    if old in _BITS and new in _BITS:
        return _integers(before, after)
    if old == new == Type.NEWDECIMAL:
        return _decimals(before, after)
    if old in _TEXTS and new in _TEXTS:
        return _binaries(before, after) if _BINARY in (before.charset, after.charset) else _texts(before, after)
    if old == new and old in (Type.ENUM, Type.SET):
        longer = after.labels[: len(before.labels)] == before.labels
        return LosslessConversion() if longer and _same_charset(before, after) else None
    if old == new and old in _FRACTIONS:
        return LosslessConversion() if after.meta >= before.meta else None
    if old == new == Type.BIT:
        return LosslessConversion() if _bits(after) >= _bits(before) else None
    if old in _FLOATS and (old, new) != (Type.DOUBLE, Type.FLOAT) and new in _FLOATS:
        known = before.column_type and after.column_type and "(" not in before.column_type + after.column_type
        return LosslessConversion() if known and before.unsigned == after.unsigned else None
    return None


def _plain(column: Column) -> Column:
    """Returns the parts of a definition that decide values. The declared type says how FLOAT and DOUBLE are rounded,
    and which kind of address a column has."""
    declared = column.column_type if column.type_code in (*_FLOATS, Type.STRING) else ""
    return replace(column, name="", nullable=True, comment="", default=None, default_expression=False, rule=None,
                   default_as_written=False, hidden=False, generated=False, column_type=declared)  # fmt: skip


def same_for_expressions(before: Column, after: Column) -> bool:
    """Whether an expression over the column keeps its values, if the column keeps its own. A longer VARCHAR changes
    nothing; any other type may be written or computed differently."""
    if before.charset != after.charset or before.type_code != after.type_code:
        return False
    return before.type_code == Type.VARCHAR or (before.column_type == after.column_type != "")


def _range(column: Column) -> tuple[int, int]:
    bits = _BITS[Type(column.type_code)]
    return (0, (1 << bits) - 1) if column.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _integers(before: Column, after: Column) -> LosslessConversion:
    (low, high), (least, most) = _range(before), _range(after)
    fits = least <= low and high <= most
    return LosslessConversion(() if fits else (f"{{}} NOT BETWEEN {least} AND {most}",))


def _decimals(before: Column, after: Column) -> LosslessConversion | None:
    (old, scale), (new, digits) = (divmod(column.meta, 256) for column in (before, after))
    if digits < scale or new - digits < old - scale or max(old, new) > 38:
        return None
    return LosslessConversion(("{} < 0",) if after.unsigned and not before.unsigned else ())


def _bits(column: Column) -> int:
    return (column.meta >> 8) * 8 + (column.meta & 255)


def _same_charset(before: Column, after: Column) -> bool:
    try:
        old, new = charset(before).name, charset(after).name
    except SchemaError:
        return False
    return old == new or (old, new) in _SUPERSETS


def _texts(before: Column, after: Column) -> LosslessConversion | None:
    """CHAR takes no blanks at the end; CHAR and VARCHAR count characters, TEXT counts bytes of UTF-8 at most."""
    if not _same_charset(before, after):
        return None
    unless = []
    if after.type_code == Type.BLOB:
        if not charset(after).is_utf8:
            return LosslessConversion() if before.type_code == Type.BLOB and after.meta >= before.meta else None
        unless.append(f"octet_length({{}}) > {256**after.meta - 1}")
    else:
        length = _LENGTH.search(after.column_type)
        if length is None:
            return None
        unless.append(f"char_length({{}}) > {length[1]}")
        if after.type_code == Type.STRING and before.type_code != Type.STRING:
            unless.append("{} LIKE '% '")
    return LosslessConversion(tuple(unless))


def _binaries(before: Column, after: Column) -> LosslessConversion | None:
    """BINARY is padded with zeros to its length, the others are not."""
    if before.charset != after.charset or Type.STRING in (before.type_code, after.type_code):
        return None
    limit = 256**after.meta - 1 if after.type_code == Type.BLOB else after.meta
    return LosslessConversion((f"octet_length({{}}) > {limit}",))
