"""The source's rows by SELECT: an oracle that shares no code with the decoder.

Each column is selected in a form whose text is exact. An unbuffered cursor streams the rows into Arrow, a chunk at a
time. Zero and partial dates are NULL here, as with `sluice.zero.dates=null`, except in columns that are read as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
from pymysql.cursors import SSCursor

from cdc_core.errors import SourceError
from cdc_core.schema.names import full_name
from spark_jobs.snapshot.sql import quote

_CHUNK = 20_000
_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_SHAPES = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
_SHAPES |= {"geometrycollection", "geomcollection"}
_SHAPE = pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])
_DATES = {"date": pa.date32(), "datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC")}
_UTF8 = {"utf8mb4", "utf8mb3", "utf8", "ascii", "binary"}
_SHOW_HIDDEN_KEYS = "SET /*!80030 show_gipk_in_create_table_and_information_schema = ON, */ @unused = 0"


@dataclass(frozen=True, slots=True)
class OracleColumn:
    """How one column is selected (`expression`), and how its values become Arrow's (`convert`)."""

    name: str
    expression: str
    type: pa.DataType
    convert: Callable[[Sequence[Any]], pa.Array]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class OracleTable:
    database: str
    table: str
    columns: tuple[OracleColumn, ...]
    key: tuple[str, ...]
    comment: str = ""

    @property
    def name(self) -> str:
        return full_name(self.database, self.table)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.columns])


def describe(
    connection: pymysql.Connection[Any], database: str, table: str, texts: Collection[str] = ()
) -> OracleTable:
    """The table's columns and key from information_schema. `texts`: columns whose dates are read as text.

    Raises SourceError when the table does not exist, or may not be read.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SHOW_HIDDEN_KEYS)
        cursor.execute(
            "SELECT column_comment, column_name, data_type, column_type, numeric_precision, numeric_scale, "
            "character_set_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
            "ORDER BY ordinal_position",
            (database, table),
        )
        columns = tuple(
            replace(_column(*row, as_text=row[0] in texts), comment=comment) for comment, *row in cursor.fetchall()
        )
        cursor.execute(
            "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s "
            "AND index_name = 'PRIMARY' ORDER BY seq_in_index",
            (database, table),
        )
        key = tuple(row[0] for row in cursor.fetchall())
        cursor.execute(
            "SELECT table_comment FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (database, table),
        )
        comment = "".join(row[0] for row in cursor.fetchall())
    if not columns:
        hint = "Name tables as database.table, and grant SELECT on them."
        raise SourceError("the table does not exist, or may not be read", place=full_name(database, table), hint=hint)
    return OracleTable(database, table, columns, key, comment)


def exists(connection: pymysql.Connection[Any], database: str, table: str) -> bool:
    """Whether there is a table of this name, of any kind."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", (database, table)
        )
        return cursor.fetchone() is not None


def stream(connection: pymysql.Connection[Any], table: OracleTable) -> Iterator[pa.RecordBatch]:
    """All rows, within the connection's transaction. Memory holds one chunk."""
    wanted = ", ".join(column.expression for column in table.columns)
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {wanted} FROM {quote(table.database)}.{quote(table.table)}")
        while rows := cursor.fetchmany(_CHUNK):
            values = zip(*rows, strict=True)
            arrays = [column.convert(part) for column, part in zip(table.columns, values, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _column(
    name: str,
    kind: str,
    declared: str,
    precision: int | None,
    scale: int | None,
    charset: str | None,
    *,
    as_text: bool,
) -> OracleColumn:
    kind, declared, q = str(kind).lower(), _text(declared).lower(), quote(name)
    unsigned = "unsigned" in declared
    if kind in _INTEGERS:
        return _plain(name, q, _integer(_INTEGERS[kind], unsigned))
    if kind == "decimal":
        fits = (precision or 10) <= 38
        text = f"CAST({q} AS CHAR)"
        return (
            _parsed(name, text, pa.decimal128(precision or 10, scale or 0)) if fits else _plain(name, text, pa.string())
        )
    if kind == "float":
        # the server prints six digits of a FLOAT, but all of a DOUBLE; to add 0e0 would lose the sign of -0
        return OracleColumn(name, f"{q} * 1e0", pa.float32(), _float32)
    if kind == "double":
        return _plain(name, q, pa.float64())
    if kind == "bit":
        return _bit(name, q, int(re.sub(r"\D", "", declared) or 1))
    if kind == "year":
        return _plain(name, f"{q} + 0", pa.int16())
    if kind == "time":
        micros = f"FLOOR(ABS(TIME_TO_SEC({q}))) * 1000000 + MICROSECOND({q})"
        return _plain(name, f"CAST(IF({q} < CAST('00:00:00' AS TIME), -1, 1) * ({micros}) AS SIGNED)", pa.int64())
    if kind in _DATES and not as_text:
        moved = f"YEAR({q}) > 0 AND CAST(FROM_DAYS(TO_DAYS({q})) AS CHAR) <> LEFT(CAST({q} AS CHAR), 10)"  # 02-31
        real = f"IF(MONTH({q}) = 0 OR DAY({q}) = 0 OR ({moved}), NULL, CAST({q} AS CHAR))"
        return _parsed(name, real, _DATES[kind])
    if kind in _SHAPES:
        # not ST_AsWKB: it swaps the axes of some SRIDs
        return OracleColumn(name, q, _SHAPE, _shapes)
    if kind == "vector":
        return OracleColumn(name, f"CAST({q} AS BINARY)", pa.list_(pa.float32()), _vectors)
    if kind in _BYTES:
        return _plain(name, q, pa.binary())
    if kind in ("enum", "set") and (charset or "binary") in _UTF8:
        return OracleColumn(name, f"CAST({q} AS BINARY)", pa.string(), _sets if kind == "set" else _enums)
    return _plain(name, f"CAST({q} AS CHAR)", pa.string())


def _integer(bits: int, unsigned: bool) -> pa.DataType:
    if unsigned and bits == 64:
        return pa.decimal128(20, 0)
    if bits == 24:
        return pa.int32()
    if unsigned and bits < 32:
        bits *= 2
    elif unsigned:
        bits = 64
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]


def _bit(name: str, quoted: str, width: int) -> OracleColumn:
    if width == 1:
        return OracleColumn(name, f"{quoted} + 0", pa.bool_(), lambda v: pa.array(v, pa.int64()).cast(pa.bool_()))
    return _plain(name, f"{quoted} + 0", pa.int64() if width < 64 else pa.decimal128(20, 0))


def _plain(name: str, expression: str, kind: pa.DataType) -> OracleColumn:
    return OracleColumn(name, expression, kind, lambda values: pa.array(values, kind))


def _parsed(name: str, expression: str, kind: pa.DataType) -> OracleColumn:
    """From text that Arrow parses."""
    bare = pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
    return OracleColumn(name, expression, kind, lambda values: pa.array(values, pa.string()).cast(bare).cast(kind))


def _float32(values: Sequence[Any]) -> pa.Array:
    doubles = np.array([0.0 if value is None else value for value in values], np.float64)
    return pa.array(doubles.astype(np.float32), pa.float32(), mask=np.array([value is None for value in values]))


def _shapes(values: Sequence[Any]) -> pa.Array:
    """Four bytes of SRID, then WKB. Old rows have no bytes at all in a NOT NULL column that was added."""
    return pa.array([None if value is None else _shape(value) for value in values], _SHAPE)


def _shape(value: bytes) -> dict[str, Any]:
    return {"srid": int.from_bytes(value[:4], "little") if value else None, "wkb": value[4:]}


def _vectors(values: Sequence[Any]) -> pa.Array:
    lists = [None if value is None else np.frombuffer(value, "<f4") for value in values]
    return pa.array(lists, pa.list_(pa.float32()))


def _enums(values: Sequence[Any]) -> pa.Array:
    return pa.array([None if value is None else _label(value) for value in values], pa.string())


def _sets(values: Sequence[Any]) -> pa.Array:
    joined = [None if value is None else ",".join(map(_label, value.split(b","))) for value in values]
    return pa.array(joined, pa.string())


def _label(raw: bytes) -> str:
    """A label, which may be any bytes; those that are no text as MySQL writes them in a declaration."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"0x{raw.hex().upper()}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
