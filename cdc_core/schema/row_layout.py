"""How wide each column's value is in a row image: one number a column, for kernels.

Positive: bytes of the value. Negative: bytes of the length that precedes the value, and 16 more for JSON, of which an
update may log only the changes.
Source: MySQL source documentation, "Rows_event"; `log_event` field packing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc_core.errors import SchemaError
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema

JSON = 16
_FIXED = {
    ColumnType.TINY: 1, ColumnType.SHORT: 2, ColumnType.INT24: 3, ColumnType.LONG: 4, ColumnType.LONGLONG: 8,
    ColumnType.FLOAT: 4, ColumnType.DOUBLE: 8, ColumnType.NULL: 0,
    ColumnType.DATE: 3, ColumnType.NEWDATE: 3, ColumnType.YEAR: 1,
    ColumnType.TIMESTAMP: 4, ColumnType.TIME: 3, ColumnType.DATETIME: 8,
}  # fmt: skip
_WHOLE_SECONDS = {ColumnType.TIMESTAMP2: 4, ColumnType.DATETIME2: 5, ColumnType.TIME2: 3}  # a byte more for two digits
_STRINGS = {ColumnType.VARCHAR, ColumnType.MARIA_VARCHAR_COMPRESSED, ColumnType.VAR_STRING, ColumnType.STRING}
_BLOBS = {
    ColumnType.TINY_BLOB, ColumnType.BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB,
    ColumnType.MARIA_BLOB_COMPRESSED, ColumnType.VECTOR, ColumnType.JSON, ColumnType.GEOMETRY,
}  # fmt: skip
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def row_layout(schema: TableSchema) -> npt.NDArray[np.int32]:
    """One number for each column. Raises SchemaError for a type that is not known."""
    return np.array([_width(schema, column) for column in schema.columns], np.int32)


def decimal_width(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL: nine digits in four, the rest in as few as hold them."""
    whole, left = divmod(precision - scale, 9)
    parts, right = divmod(scale, 9)
    return 4 * (whole + parts) + _BYTES_OF_DIGITS[left] + _BYTES_OF_DIGITS[right]


def _width(schema: TableSchema, column: Column) -> int:
    code, meta = column.type_code, column.meta
    if code in _FIXED:
        return _FIXED[ColumnType(code)]
    if code in _WHOLE_SECONDS and meta <= 6:
        return _WHOLE_SECONDS[ColumnType(code)] + (meta + 1) // 2
    if code in _STRINGS:
        return -1 if meta <= 255 else -2
    if code in _BLOBS and 1 <= meta <= 4:
        return -meta - (JSON if code == ColumnType.JSON else 0)
    if (code == ColumnType.ENUM and 1 <= meta <= 2) or (code == ColumnType.SET and 1 <= meta <= 8):
        return meta
    if code == ColumnType.BIT and 1 <= (meta >> 8) * 8 + (meta & 255) <= 64:
        return (meta >> 8) + ((meta & 255) + 7) // 8
    if code == ColumnType.NEWDECIMAL and meta & 255 <= meta >> 8 <= 65:
        return decimal_width(meta >> 8, meta & 255)
    raise SchemaError(
        f"column {column.name!r} has type code {code} with metadata {meta}, which is not known",
        place=schema.name,
        hint="Leave the table out with canal.instance.filter.black.regex.",
    )
