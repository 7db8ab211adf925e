"""A table's row images as one Arrow record batch, a column at a time.

Each family of types has a module with `arrow_type(column)` and `decode(cells)`; the list here says which type belongs
to which. A type that is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.errors import SchemaError, TableStopped
from cdc_core.rows.columns import (
    addresses,
    bits,
    computed,
    decimals,
    enums,
    floats,
    geometry,
    integers,
    json_diff,
    json_text,
    masks,
    strings,
    temporal,
    vectors,
)
from cdc_core.rows.columns.cells import Cells
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema, unsupported


class Family(Protocol):
    """What a family's module offers."""

    def arrow_type(self, column: Column, /) -> pa.DataType: ...
    def decode(self, cells: Cells) -> pa.Array: ...


_CODES: tuple[tuple[Family, tuple[int, ...]], ...] = (
    (integers, (Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG)),
    (floats, (Type.FLOAT, Type.DOUBLE)),
    (temporal, (Type.DATE, Type.NEWDATE, Type.YEAR)),
    (temporal, (Type.TIMESTAMP, Type.TIME, Type.DATETIME, Type.TIMESTAMP2, Type.TIME2, Type.DATETIME2)),
    (strings, (Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.MARIA_VARCHAR_COMPRESSED)),
    (strings, (Type.TINY_BLOB, Type.BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB, Type.MARIA_BLOB_COMPRESSED)),
    (bits, (Type.BIT,)),
    (vectors, (Type.VECTOR,)),
    (json_text, (Type.JSON,)),
    (decimals, (Type.NEWDECIMAL,)),
    (enums, (Type.ENUM, Type.SET)),
    (geometry, (Type.GEOMETRY,)),
)
_FAMILIES: dict[int, Family] = {code: family for family, codes in _CODES for code in codes}
_REFUSED: dict[int, str] = {Type.DECIMAL: "DECIMAL of before MySQL 5.0"}


Patch = tuple[list[int], list[str]]
"""Rows, and their whole JSON documents where the images have the changes alone."""


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column: the one mapping. Raises SchemaError for a type without one, and for a mask that is
    not for its values."""
    return masks.seen_type(column, _family(column).arrow_type(column))


def arrow_fields(schema: TableSchema) -> list[pa.Field]:
    """The fields of all columns that SELECT knows, nullable all: images may lack columns. Raises TableStopped."""
    return [pa.field(column.name, _type_in(schema, column)) for column in schema.shown]


def decode(
    schema: TableSchema,
    data: Bytes,
    starts: Longs,
    *,
    zero_dates: ZeroDates = "fail",
    place: Callable[[int], str] | None = None,
    patches: Mapping[int, Patch] | None = None,
    blank: npt.NDArray[np.bool_] | None = None,
) -> pa.RecordBatch:
    """Row images as columns. `starts[column, image]` is where a value starts in `data` (at its length prefix, if it has
    one); negative for NULL or absent. `place` gives the position of an image's event, for errors. `patches` are by the
    column's number in the definition. Values are as the columns' rules have them. `blank` images are of keys alone, so
    that nothing is computed from them.

    Raises DecodeError for a damaged or refused value, TableStopped for a type without a mapping."""
    fields, stored = arrow_fields(schema), schema.stored
    if len(starts) != len(stored):
        raise SchemaError(
            f"{len(stored)} columns in the definition, {len(starts)} in its rows",
            place=schema.name,
            hint="The definition does not fit the rows: start at a position after the table's last change.",
        )
    arrays = []
    for number, (column, own) in enumerate(zip(stored, np.ascontiguousarray(starts, np.int64), strict=True)):
        if not column.hidden:
            dates, in_key = column.zero_dates(zero_dates), column.name in schema.primary_key
            cells = Cells(schema.name, column, data, own, dates, place, in_key)
            values = _family(column).decode(cells)
            if patches and number in patches:
                values = json_diff.patched(values, *patches[number])
            arrays.append(masks.seen(cells, values))
    arrays += computed.arrays(schema, arrays, starts.shape[1], place, blank)
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
        raise TableStopped(error.message, place=error.place or schema.name, hint=error.hint) from None
