"""Turns the cells of each column into Arrow, with the decoder's values for the binlog.

If a value is the same in a result as in a row image, or can be converted to it, the decoder's own families read it.
So zero dates, labels, character sets, shapes and vectors have one meaning in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cdc_core.charsets.unicode import Offsets
from cdc_core.compiled.fault import Fault
from cdc_core.compiled.kernel import Bytes, Ints, Longs
from cdc_core.errors import SchemaError
from cdc_core.rows.columns import (
    bits,
    computed,
    decimals,
    enums,
    floats,
    geometry,
    integers,
    strings,
    temporal,
    vectors,
)
from cdc_core.rows.columns.arrays import fixed, variable
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.masks import seen
from cdc_core.rows.columns.moments import width_of
from cdc_core.rules.conditions import condition
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.resultset import kernels

_INTEGERS = (Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG)
_FLOATS = (Type.FLOAT, Type.DOUBLE)
_TODAY = {Type.TIMESTAMP: Type.TIMESTAMP2, Type.DATETIME: Type.DATETIME2, Type.TIME: Type.TIME2}
_KINDS = {
    Type.DATE: kernels.DATE, Type.NEWDATE: kernels.DATE, Type.DATETIME2: kernels.DATETIME,
    Type.TIMESTAMP2: kernels.TIMESTAMP, Type.TIME2: kernels.TIME,
}  # fmt: skip


def decode(
    schema: TableSchema,
    data: Bytes,
    starts: Longs,
    widths: Ints,
    *,
    zero_dates: ZeroDates = "fail",
    place: Callable[[int], str] | None = None,
) -> pa.RecordBatch:
    """Rows as columns; of a table with a condition those that meet it. `starts[column, row]` is where a cell starts in
    `data`, a text at its length; negative for NULL. `widths`: of `answers.widths`. `place` says of a row where it is,
    for errors.

    Raises DecodeError for a value that the decoder refuses as well.
    """
    fields = arrow_fields(schema)
    arrays = [
        _seen(_cells(schema, column, data, own, column.zero_dates(zero_dates), place), width)
        for column, own, width in zip(schema.selected, starts, widths.tolist(), strict=True)
    ]
    rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields[: len(arrays)]))
    rows = _meeting(schema, rows) if schema.where else rows
    more = computed.arrays(schema, rows.columns, rows.num_rows, place)
    return pa.RecordBatch.from_arrays([*rows.columns, *more], schema=pa.schema(fields))


def _cells(
    schema: TableSchema,
    column: Column,
    data: Bytes,
    starts: Longs,
    zero_dates: ZeroDates,
    place: Callable[[int], str] | None,
) -> Cells:
    return Cells(schema.name, column, data, starts, zero_dates, place, column.name in schema.primary_key)


def _meeting(schema: TableSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that meet the table's condition."""
    asked = condition(schema.where)
    values = {column.source_name.lower(): rows.column(number) for number, column in enumerate(schema.selected)}
    if lacking := [name for name in asked.columns if name not in values]:
        hint = "Reload the table from the source (sluice copy)."
        raise SchemaError(f"its condition asks {lacking[0]!r}, which is not read", place=schema.name, hint=hint)
    return rows.filter(asked.holds(values))


def _seen(cells: Cells, width: int) -> pa.Array:
    """What the column's rule makes of its values."""
    return seen(cells, _array(cells, width))


def _array(cells: Cells, width: int) -> pa.Array:
    code = cells.column.type_code
    if code in _INTEGERS:
        return integers.of_width(cells, width)
    if code in _FLOATS:
        return floats.decode(cells)
    if code == Type.YEAR:
        return integers.narrowed(pa.int16(), integers.gathered(cells, width), cells.present())
    if code in (Type.ENUM, Type.SET):
        return enums.decode(replace(cells, column=replace(cells.column, meta=width)))
    if code == Type.BIT:
        return bits.decode(replace(cells, starts=_behind_length(cells)))
    if code in _TODAY or code in _KINDS:
        return temporal.decode(_packed(cells))
    if code == Type.NEWDECIMAL and pa.types.is_decimal(decimals.arrow_type(cells.column)):
        values = np.empty(2 * len(cells), np.uint64)
        cells.check(kernels.read_decimals(cells.data, cells.starts, cells.column.meta & 0xFF, values))
        return fixed(decimals.arrow_type(cells.column), values, cells.present())
    raw, offsets = _texts(cells)
    if code == Type.GEOMETRY:
        return geometry.shapes(cells, raw, offsets)
    if code == Type.VECTOR:
        return vectors.lists(cells, raw, offsets)
    if cells.column.is_address or code in (Type.JSON, Type.NEWDECIMAL):
        return strings.checked(cells, variable(pa.string(), offsets, raw, cells.present()))
    return strings.converted(cells, raw, offsets)


def _texts(cells: Cells) -> tuple[Bytes, Offsets]:
    """Returns the bytes of all values one after the other, and where each ends."""
    offsets = np.empty(len(cells) + 1, np.int32)
    cells.check(kernels.measure_texts(cells.data, cells.starts, offsets))
    out = np.empty(offsets[-1], np.uint8)
    kernels.copy_texts(cells.data, cells.starts, offsets, out)
    return out, offsets


def _behind_length(cells: Cells) -> Longs:
    """Where the bits of BIT start: in as many bytes as in a row image."""
    there = cells.starts >= 0
    width = (cells.column.meta >> 8) + ((cells.column.meta & 0xFF) + 7) // 8
    odd = np.flatnonzero(there)[cells.data[cells.starts[there]] != width]
    if len(odd):
        cells.check((Fault.MALFORMED, int(odd[0])))
    return np.where(there, cells.starts + 1, cells.starts)


def _packed(cells: Cells) -> Cells:
    """Moments in the form of row images; of those with a fraction, in the form of today."""
    column = cells.column
    if column.type_code in _TODAY:
        column = replace(column, type_code=_TODAY[Type(column.type_code)], meta=0)
    fraction = 0 if column.type_code in (Type.DATE, Type.NEWDATE) else (column.meta + 1) // 2
    width = 3 + fraction if column.type_code == Type.TIME2 else width_of(column)
    out = np.empty(width * len(cells), np.uint8)
    kind = _KINDS[Type(column.type_code)]
    cells.check(kernels.pack_moments(cells.data, cells.starts, kind, fraction, width, out))
    starts = np.where(cells.starts < 0, cells.starts, np.arange(len(cells), dtype=np.int64) * width)
    return replace(cells, column=column, data=out, starts=starts)
