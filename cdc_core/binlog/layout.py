"""How long each column's value is in a row image: one number a column, for the compiled walkers.

Positive: so many bytes. Negative: a length prefix of so many bytes, then the value; 16 more for JSON, of which an
update may tell only what changed.
Source: MySQL source documentation, "Rows events"; `log_event` field packing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc_core.errors import SchemaError
from cdc_core.schema.table import Column, TableSchema

JSON = 16
_FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 0, 7: 4, 8: 8, 9: 3, 10: 3, 11: 3, 12: 8, 13: 1, 14: 3}
_FRACTIONAL = {17: 4, 18: 5, 19: 3}  # TIMESTAMP2, DATETIME2, TIME2: whole seconds, then two digits a byte
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def layout_of(schema: TableSchema) -> npt.NDArray[np.int32]:
    """One entry a column. Raises SchemaError for a type that is not known."""
    return np.array([_width(schema, column) for column in schema.columns], np.int32)


def decimal_width(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL: nine digits in four, the rest in as few as hold them."""
    whole, left = divmod(precision - scale, 9)
    parts, right = divmod(scale, 9)
    return 4 * (whole + parts) + _BYTES_OF_DIGITS[left] + _BYTES_OF_DIGITS[right]


def _width(schema: TableSchema, column: Column) -> int:
    code, meta = column.type_code, column.meta
    if code in _FIXED:
        return _FIXED[code]
    if code in _FRACTIONAL and meta <= 6:
        return _FRACTIONAL[code] + (meta + 1) // 2
    if code in (15, 141, 253, 254):
        return -1 if meta <= 255 else -2
    if code in (140, 242, 245, 249, 250, 251, 252, 255) and 1 <= meta <= 4:
        return -meta - (JSON if code == 245 else 0)
    if (code == 247 and 1 <= meta <= 2) or (code == 248 and 1 <= meta <= 8):
        return meta
    if code == 16 and 1 <= (meta >> 8) * 8 + (meta & 255) <= 64:
        return (meta >> 8) + ((meta & 255) + 7) // 8
    if code == 246 and meta & 255 <= meta >> 8 <= 65:
        return decimal_width(meta >> 8, meta & 255)
    raise SchemaError(
        f"column {column.name!r} has type code {code} with metadata {meta}, which is not known",
        place=schema.name,
        hint="Leave the table out with canal.instance.filter.black.regex.",
    )
