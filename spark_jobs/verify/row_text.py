"""A row's text on both sides, equal where the row is: SQL for the server, Arrow for the lake.

Values are joined by commas. A text or bytes begin with their length, NULL is `N`, so that no two rows share a text.
Equal texts promise equal values, but for zero dates, which are NULL here. Odd values of equal rows may have different
texts (an impossible date, a label that is no text, a small double of MariaDB): such rows are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from cdc_core.charsets.charsets import charset
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.sql import quote
from spark_jobs.verify.double_text import double_text

NULL = b"N"
PLAIN_SCALE = 6  # Arrow prints no decimal of so few places with an exponent
_MICROS = ".000000"
_BYTES = pa.large_binary()
_PLAIN = (
    Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.TINY_BLOB, Type.BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB,
)  # fmt: skip
"""Types whose bytes the server returns unchanged."""


def source_text(schema: TableSchema, names: Sequence[str]) -> str:
    """The SQL of those columns' text. The session's time zone is UTC, its character set utf8mb4."""
    columns, kinds = {c.name: c for c in schema.shown}, {field.name: field.type for field in arrow_fields(schema)}
    parts = [f"IFNULL({_expression(columns[name], kinds[name])}, '{NULL.decode()}')" for name in names]
    return f"CONCAT_WS(',', {', '.join(parts)})"


def lake_text(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """The same text of each row that the lake has, as large_binary."""
    parts = [_text(rows.column(name)) for name in names]
    separator = pa.scalar(b",", _BYTES)
    null = {"null_handling": "replace", "null_replacement": NULL}
    return pc.binary_join_element_wise(*parts, separator, **null).fill_null(NULL).cast(_BYTES)


def source_value(column: Column, kind: pa.DataType) -> str:
    """The SQL of the text of one column alone, NULL for NULL, as bytes of UTF-8."""
    name = quote(column.source_name)
    if _is_long(kind):
        plain = column.type_code in _PLAIN and (pt.is_binary(kind) or charset(column).is_utf8)
        return name if plain else _bytes_of(name, kind)
    return _expression(column, kind)


def _is_long(kind: pa.DataType) -> bool:
    """Whether its text begins with a length where it is one of several."""
    texts = pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind)
    return bool(texts or pt.is_struct(kind) or pt.is_list(kind) or pt.is_large_list(kind))


def _expression(column: Column, kind: pa.DataType) -> str:
    name = quote(column.source_name)
    if _is_long(kind):
        return _measured(_bytes_of(name, kind))
    if column.type_code == Type.FLOAT:
        return f"{name} * 1e0"  # the server prints six digits of a FLOAT, but all of a DOUBLE
    if pt.is_decimal(kind):
        return _unscaled(name, kind.scale) if kind.scale > PLAIN_SCALE else f"{name} + 0"
    if column.type_code == Type.TIME2:
        micros = f"FLOOR(ABS(TIME_TO_SEC({name}))) * 1000000 + MICROSECOND({name})"
        return f"CAST(IF({name} < CAST('00:00:00' AS TIME), -1, 1) * ({micros}) AS SIGNED)"
    if pt.is_date(kind):
        return _real(name, f"CAST({name} AS CHAR)")
    if pt.is_timestamp(kind):
        rest = _MICROS[column.meta + 1 if column.meta else 0 :]
        return _real(name, f"CONCAT({name}, '{rest}')" if rest else f"CAST({name} AS CHAR)")
    return f"{name} + 0" if column.type_code != Type.DOUBLE else f"CAST({name} AS CHAR)"


def _bytes_of(name: str, kind: pa.DataType) -> str:
    return f"CONVERT({name} USING utf8mb4)" if pt.is_string(kind) else f"CAST({name} AS BINARY)"


def _measured(text: str) -> str:
    return f"CONCAT(OCTET_LENGTH({text}), ':', CAST({text} AS BINARY))"


def _unscaled(name: str, scale: int) -> str:
    return f"CAST({name} * 1{'0' * scale} AS DECIMAL(65,0))"


def _real(name: str, text: str) -> str:
    return f"IF(MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0, NULL, {text})"


def _text(values: pa.Array) -> pa.Array:
    """As one of several texts in a row."""
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    return _counted(lake_value(values)) if _is_long(values.type) else lake_value(values)


def lake_value(values: pa.Array) -> pa.Array:
    """The text of one column alone that the lake has, as large_binary."""
    kind = values.type
    if pt.is_dictionary(kind):
        return lake_value(values.dictionary_decode())
    if pt.is_floating(kind):
        return double_text(values)
    if pt.is_struct(kind):
        return _shapes(values)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _vectors(values)
    if _is_long(kind):
        return values.cast(_BYTES)
    if pt.is_decimal(kind) and kind.scale > PLAIN_SCALE:
        return values.view(pa.decimal128(kind.precision, 0)).cast(pa.string()).cast(_BYTES)
    if pt.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).view(pa.timestamp("us"))
    elif pt.is_boolean(kind):
        values = values.cast(pa.int8())
    return values.cast(pa.string()).cast(_BYTES)


def _counted(values: pa.Array) -> pa.Array:
    lengths = pc.binary_length(values).cast(pa.string()).cast(_BYTES)
    return pc.binary_join_element_wise(lengths, values, pa.scalar(b":", _BYTES))


def _shapes(values: pa.Array) -> pa.Array:
    """The server's own bytes: four of the SRID, then WKB; none at all where there is no SRID."""
    srid = values.field("srid").fill_null(0).to_numpy(zero_copy_only=False).astype("<u4")
    heads = pa.Array.from_buffers(pa.binary(4), len(values), [None, pa.py_buffer(srid)]).cast(_BYTES)
    heads = pc.if_else(values.field("srid").is_valid(), heads, pa.scalar(b"", _BYTES))
    whole = pc.binary_join_element_wise(heads, values.field("wkb").cast(_BYTES).fill_null(b""), pa.scalar(b"", _BYTES))
    return pc.if_else(values.is_valid(), whole, pa.scalar(None, _BYTES))


def _vectors(values: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * 4
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    floats = np.ascontiguousarray(values.flatten().to_numpy(zero_copy_only=False), "<f4")
    whole = pa.Array.from_buffers(_BYTES, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(floats)])
    return pc.if_else(values.is_valid(), whole, pa.scalar(None, _BYTES))
