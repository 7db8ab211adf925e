"""A table with a column of each type that the lake has, and rows of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

TYPES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [-3, 4]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, [-0.0, 1.5]) for kind in (pa.float32(), pa.float64())),
    (pa.bool_(), [True, False]),
    (pa.decimal128(5, 2), [Decimal("-1.25"), Decimal("999.99")]),
    (pa.decimal128(18, 0), [Decimal(10**17), Decimal(-1)]),
    (pa.decimal128(38, 10), [Decimal("-0.0000000001"), Decimal(10**27)]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2038, 1, 19, tzinfo=dt.UTC)]),
    (pa.string(), ["", "\U0001f600 \x00"]),
    (pa.large_string(), ["", "x"]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.large_binary(), [b"", b"x"]),
    (pa.list_(pa.string()), [[], ["a", "b"]]),
    (pa.list_(pa.float32()), [[0.5], []]),
    (pa.struct([("srid", pa.int64()), ("wkb", pa.binary())]), [{"srid": 0, "wkb": b"x"}, {"srid": 1, "wkb": b""}]),
]
SCHEMA = pa.schema([pa.field(str(number), kind) for number, (kind, _) in enumerate(TYPES)])


def rows() -> pa.RecordBatch:
    """Two rows and one of NULLs, under other names than the table's."""
    arrays = [pa.array([*values, None], kind) for kind, values in TYPES]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{number}" for number in range(len(arrays))])
