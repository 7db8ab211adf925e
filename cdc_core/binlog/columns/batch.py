"""A table's row images as one Arrow record batch, a column at a time.

Each family of types has a module with `arrow_type(column)` and `decode(cells)`; here is which type belongs to which.
A type that is not in the list is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

import numpy as np
import pyarrow as pa

from cdc_core.binlog.columns import (
    addresses,
    bits,
    decimals,
    enums,
    floats,
    geometry,
    integers,
    json_text,
    strings,
    temporal,
    vectors,
)
from cdc_core.binlog.columns.kernel import Bytes, Cells, Longs, ZeroDates, unsupported
from cdc_core.errors import SchemaError
from cdc_core.schema.table import Column, TableSchema


class Family(Protocol):
    """What a family's module offers."""

    def arrow_type(self, column: Column, /) -> pa.DataType: ...
    def decode(self, cells: Cells) -> pa.Array: ...


_CODES: tuple[tuple[Family, tuple[int, ...]], ...] = (
    (integers, (1, 2, 3, 8, 9)),
    (floats, (4, 5)),
    (temporal, (7, 10, 11, 12, 13, 14, 17, 18, 19)),
    (strings, (15, 140, 141, 249, 250, 251, 252, 253, 254)),
    (bits, (16,)),
    (vectors, (242,)),
    (json_text, (245,)),
    (decimals, (246,)),
    (enums, (247, 248)),
    (geometry, (255,)),
)
_FAMILIES = {code: family for family, codes in _CODES for code in codes}
_REFUSED = {0: "DECIMAL of before MySQL 5.0"}


def arrow_type(column: Column) -> pa.DataType:
    """The one mapping of types. Raises SchemaError for a type that has none."""
    return _family(column).arrow_type(column)


def arrow_fields(schema: TableSchema) -> list[pa.Field]:
    """The fields of all columns that SELECT knows, nullable all: images may lack columns."""
    return [pa.field(column.name, _type_in(schema, column)) for column in schema.shown]


def decode(
    schema: TableSchema,
    data: Bytes,
    starts: Longs,
    *,
    zero_dates: ZeroDates = "fail",
    place: Callable[[int], str] | None = None,
) -> pa.RecordBatch:
    """Row images as columns. `starts[column, image]` is where a value starts in `data` (at its length prefix, if it has
    one), negative for NULL or absent. `place` says where an image stands in the binlog, for errors.

    Raises DecodeError for a damaged or refused value, SchemaError for a type without a mapping."""
    fields = arrow_fields(schema)
    if len(starts) != len(schema.columns):
        raise SchemaError(
            f"{len(schema.columns)} columns in the definition, {len(starts)} in its rows",
            place=schema.name,
            hint="The definition does not fit this position: start at a position after the table's last change.",
        )
    arrays = []
    for column, own in zip(schema.columns, np.ascontiguousarray(starts, np.int64), strict=True):
        if not column.hidden:
            cells = Cells(schema.name, column, data, own, zero_dates, place)
            arrays.append(_family(column).decode(cells))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _family(column: Column) -> Family:
    if column.is_address:
        return addresses
    family = _FAMILIES.get(column.type_code)
    if family is None:
        raise unsupported(column, f"type {_REFUSED.get(column.type_code, column.type_code)} is not supported")
    return family


def _type_in(schema: TableSchema, column: Column) -> pa.DataType:
    try:
        return arrow_type(column)
    except SchemaError as error:
        _reraise(error, schema)


def _reraise(error: SchemaError, schema: TableSchema) -> NoReturn:
    raise SchemaError(error.message, place=error.place or schema.name, hint=error.hint) from None
