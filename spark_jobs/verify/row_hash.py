"""Computes a row's hash and its bucket, on the server and for the lake's rows: from the CRC32 of each value.

The server gives CRC32 of a value without making one text of the whole row, which would take most of its time. Each
column has a factor of its own, and the other columns are multiplied by the key: values that two columns or two rows
exchange are seen. Two different rows of a key have the same hash with a chance of 1 in 2**32. Odd values of equal rows
may differ in their hash, as in `row_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
from numba import types

from cdc_core.binlog.checksum import crc32
from cdc_core.compiled.kernel import BYTES, LONGS, Bytes, Longs, kernel
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.verify.row_text import lake_value, source_value

Words = npt.NDArray[np.uint64]
_MASK = 0xFFFFFFFF
_NULL = 0x9E3779B9  # stands for the CRC32 of a NULL
_SEED = 0x85EBCA6B  # else a row of empty texts would have no hash
_VALID = types.Array(types.boolean, 1, "C", readonly=True)


def source_hash(schema: TableSchema) -> str:
    """The SQL of a row's hash: a BIGINT UNSIGNED."""
    key = source_key_hash(schema)
    others = [column.name for column in schema.shown if column.name not in schema.primary_key]
    return f"({_source_mix(schema, others)} ^ {_SEED}) * ({key} | 1)" if schema.primary_key and others else key


def source_key_hash(schema: TableSchema) -> str:
    """The SQL of the hash of a row's key, of 32 bits; of the whole row where there is no key."""
    return _source_mix(schema, schema.primary_key or [column.name for column in schema.shown])


def lake_hash(batch: pa.RecordBatch, key: Sequence[str], names: Sequence[str]) -> tuple[Words, Words]:
    """The hashes of each row's key and of the row itself, of the columns `names`."""
    keys = _lake_mix(batch, key or names)
    others = [name for name in names if name not in key]
    if not key or not others:
        return keys, keys
    return keys, cast("Words", (_lake_mix(batch, others) ^ np.uint64(_SEED)) * (keys | np.uint64(1)))


def _factor(number: int) -> int:
    """An odd number of 32 bits for each column, by its place (Knuth, 6.4: multiplicative hashing)."""
    return 0x9E3779B1 * (2 * number + 1) & _MASK


def _source_mix(schema: TableSchema, names: Sequence[str]) -> str:
    columns, kinds = {c.name: c for c in schema.shown}, {field.name: field.type for field in arrow_fields(schema)}
    parts = [f"{_crc(columns[name], kinds[name])} * {_factor(at)}" for at, name in enumerate(names)]
    return f"({_xor(parts)} & {_MASK})"


def _crc(column: Column, kind: pa.DataType) -> str:
    """An integer without a sign: `IFNULL` alone makes a DECIMAL of it, which the operators for bits cut off."""
    crc = f"CRC32({source_value(column, kind)})"
    dated = pt.is_date(kind) or pt.is_timestamp(kind)  # a zero date is NULL here
    return f"(IFNULL({crc}, {_NULL}) | 0)" if column.nullable or dated else crc


def _xor(parts: Sequence[str]) -> str:
    """Half by half, because a server's stack bears no chain of thousands of operators."""
    if len(parts) == 1:
        return f"({parts[0]})"
    middle = len(parts) // 2
    return f"({_xor(parts[:middle])} ^ {_xor(parts[middle:])})"


def _lake_mix(batch: pa.RecordBatch, names: Sequence[str]) -> Words:
    found = np.zeros(batch.num_rows, np.uint64)
    for at, name in enumerate(names):
        values = lake_value(batch.column(name))
        _add(*_parts(values), np.asarray(values.is_valid()), np.uint64(_factor(at)), found)
    return found & np.uint64(_MASK)


@kernel(types.void(BYTES, LONGS, _VALID, types.uint64, types.uint64[::1]))
def _add(data: Bytes, offsets: Longs, valid: npt.NDArray[np.bool_], factor: np.uint64, out: Words) -> None:
    for row in range(len(out)):
        crc = np.uint64(crc32(data, offsets[row], offsets[row + 1])) if valid[row] else np.uint64(_NULL)
        out[row] ^= crc * factor


def _parts(texts: pa.Array) -> tuple[Bytes, Longs]:
    _, offsets, data = texts.buffers()
    here = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8), here
