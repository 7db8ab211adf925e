"""How the kernel that writes rows gets a column's texts: most types it prints itself, the others come ready."""

from __future__ import annotations

from enum import IntEnum

from cdc_core.charsets import charsets
from cdc_core.rows.columns.moments import fraction_of
from cdc_core.rows.columns.strings import prefix_size
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column

FIELDS = 4  # of a plan: How, two numbers, and the most bytes of a text (of UTF8 and READY: beyond its own)
MOST_TEXT = 96  # bytes of what the kernel prints
_DECIMAL = 65  # digits at most
_WIDTHS = {Type.TINY: 1, Type.SHORT: 2, Type.INT24: 3, Type.LONG: 4, Type.LONGLONG: 8}
_TEXTS = (
    Type.STRING,
    Type.VAR_STRING,
    Type.VARCHAR,
    Type.TINY_BLOB,
    Type.BLOB,
    Type.MEDIUM_BLOB,
    Type.LONG_BLOB,
)


class TextSource(IntEnum):
    """Where a column's texts come from, and what the two numbers are."""

    READY = 0  # made before: the number among the ready columns
    SIGNED = 1  # an integer: its bytes
    UNSIGNED = 2
    DECIMAL = 3  # precision and scale
    DATE = 4
    DATETIME = 5  # bytes of the fraction, and its digits
    UTF8 = 6  # copied: bytes of the length


def plan(column: Column, ready: int) -> tuple[int, int, int, int]:
    """A column's plan; `ready` is the number it has if its texts come ready."""
    code = Type(column.type_code)
    if not column.is_address:
        if code in _WIDTHS:
            return (TextSource.UNSIGNED if column.unsigned else TextSource.SIGNED), _WIDTHS[code], 0, 20
        precision, scale = column.meta >> 8, column.meta & 0xFF
        if code == Type.NEWDECIMAL and scale <= precision <= _DECIMAL:
            return TextSource.DECIMAL, precision, scale, precision + 3
        if code in (Type.DATE, Type.NEWDATE):
            return TextSource.DATE, 0, 0, 10
        if code == Type.DATETIME2 and column.meta <= 6:
            return TextSource.DATETIME, fraction_of(column), column.meta, 26
        if code in _TEXTS and charsets.charset(column).is_utf8:
            return TextSource.UTF8, prefix_size(column), 0, 0
    return TextSource.READY, ready, 0, 0
