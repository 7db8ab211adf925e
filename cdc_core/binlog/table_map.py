"""The table definition in a TABLE_MAP event: what the server says of the rows that follow.

With MINIMAL metadata the columns have no names and there is no key; `schema.information_schema` adds them. Errors have
no place; the annotator adds it.
Source: MySQL source documentation, `Table_map_event`; MariaDB 10.5 and later write the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cdc_core.binlog.damage import damaged
from cdc_core.errors import DecodeError
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.labels import hexadecimal
from cdc_core.schema.table import Column, TableSchema

STRING, ENUM, SET, NEWDECIMAL, GEOMETRY, YEAR = (
    ColumnType.STRING, ColumnType.ENUM, ColumnType.SET, ColumnType.NEWDECIMAL, ColumnType.GEOMETRY, ColumnType.YEAR,
)  # fmt: skip
_INTEGERS = {ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG}
_FLOATS = {ColumnType.FLOAT, ColumnType.DOUBLE}
_BLOBS = {ColumnType.TINY_BLOB, ColumnType.BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB}
_BLOBS |= {ColumnType.MARIA_BLOB_COMPRESSED}
_VARCHARS = {ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.MARIA_VARCHAR_COMPRESSED}
_OLD_MOMENTS = {ColumnType.TIMESTAMP, ColumnType.TIME, ColumnType.DATETIME}
_MOMENTS = {ColumnType.TIMESTAMP2, ColumnType.TIME2, ColumnType.DATETIME2}
# by the bytes of metadata that a type has
_NO_BYTES = _INTEGERS | _OLD_MOMENTS | {ColumnType.DATE, ColumnType.NEWDATE, YEAR}
_ONE_BYTE = _FLOATS | _MOMENTS | _BLOBS | {GEOMETRY, ColumnType.JSON, ColumnType.VECTOR}
_TWO_BYTES = _VARCHARS | {ColumnType.BIT}
_HIDDEN = "DB_ROW_HASH_"  # MariaDB's columns for unique keys over long values
_NUMERIC = _INTEGERS | _FLOATS | {YEAR, NEWDECIMAL}  # the types for which the metadata has a sign
_CHARACTER = _VARCHARS | _BLOBS | {STRING}

_T = TypeVar("_T")


@dataclass(slots=True)
class _Reader:
    """Reads bytes in order, and refuses to read beyond them."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise _damaged("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def packed(self) -> int:
        """A length-encoded integer."""
        first = self.byte()
        if first < 251:
            return first
        if first in (251, 255):
            raise _damaged(f"a length starts with {first}")
        return int.from_bytes(self.take({252: 2, 253: 3, 254: 8}[first]), "little")

    def text(self) -> bytes:
        return self.take(self.packed())

    def packed_all(self) -> Iterator[int]:
        while self.at < len(self.data):
            yield self.packed()


@dataclass(slots=True)
class _Metadata:
    """The optional fields of the event, by column number."""

    unsigned: dict[int, bool] = field(default_factory=dict)
    charset: dict[int, int] = field(default_factory=dict)
    names: list[bytes] = field(default_factory=list)
    labels: dict[int, list[bytes]] = field(default_factory=dict)
    key: list[int] = field(default_factory=list)


def parse(body: bytes, mariadb: bool = False) -> TableSchema:
    """The definition in a TABLE_MAP event's body, which starts after header, table id and flags. Raises DecodeError.

    MariaDB counts GEOMETRY among the columns with a character set, and logs columns that SELECT does not know."""
    try:
        return _parse(body, mariadb)
    except ValueError as error:
        raise _damaged(str(error)) from error


def _parse(body: bytes, mariadb: bool) -> TableSchema:
    reader = _Reader(body)
    database, table = (_identifier(reader) for _ in range(2))
    codes = reader.take(reader.packed())
    metas = _Reader(reader.text())
    columns = [_column(code, metas) for code in codes]
    if metas.at != len(metas.data):
        raise _damaged("its column metadata is too long")
    nulls = reader.take((len(codes) + 7) // 8)
    columns = [replace(c, nullable=bool(nulls[i >> 3] >> (i & 7) & 1)) for i, c in enumerate(columns)]
    found = _optional(reader, columns, _CHARACTER | {GEOMETRY} if mariadb else _CHARACTER)
    if any(index >= len(columns) for index in found.key) or (found.names and len(found.names) != len(columns)):
        raise _damaged("its metadata names columns that it does not have")
    columns = [_complete(c, i, found) for i, c in enumerate(columns)]
    if mariadb:
        columns = [replace(c, hidden=c.name.startswith(_HIDDEN)) for c in columns]
    return TableSchema(database, table, tuple(columns), tuple(columns[i].name for i in found.key))


def names_in(body: bytes) -> tuple[str, str]:
    """Database and table alone, for the filter. Raises DecodeError."""
    reader = _Reader(body)
    try:
        return _identifier(reader), _identifier(reader)
    except ValueError as error:
        raise _damaged(str(error)) from error


def _identifier(reader: _Reader) -> str:
    """A name: its length, its bytes and a zero."""
    name = reader.text()
    reader.take(1)
    return name.decode()


def _column(code: int, metas: _Reader) -> Column:
    if code in _NO_BYTES:
        return Column("", code, 0)
    if code in _ONE_BYTE:
        return Column("", code, metas.byte())
    if code in (STRING, ENUM, SET):
        column = _string(metas.byte(), metas.byte())
        if column.type_code not in (STRING, ENUM, SET):
            raise _damaged(f"a string column has type {column.type_code}")
        return column
    if code == NEWDECIMAL:
        return Column("", code, metas.byte() << 8 | metas.byte())
    if code in _TWO_BYTES:
        return Column("", code, int.from_bytes(metas.take(2), "little"))
    raise DecodeError(
        f"a column has type code {code}, which is not known",
        hint="Leave the table out with canal.instance.filter.black.regex.",
    )


def _string(kind: int, length: int) -> Column:
    """CHAR, BINARY, ENUM or SET. A CHAR of more than 255 bytes has two bits of its length in the type code."""
    if kind & 0x30 != 0x30:
        return Column("", kind | 0x30, length | ((kind & 0x30) ^ 0x30) << 4)
    return Column("", kind, length)


def _optional(reader: _Reader, columns: list[Column], character: Set[int]) -> _Metadata:
    numeric = _indexes(columns, lambda c: c.type_code in _NUMERIC)
    texts = _indexes(columns, lambda c: c.type_code in character)
    enums = _indexes(columns, lambda c: c.type_code == ENUM)
    sets = _indexes(columns, lambda c: c.type_code == SET)
    either = sorted(enums + sets)
    found = _Metadata()
    while reader.at < len(reader.data):
        kind, value = reader.byte(), _Reader(reader.text())
        if kind == 1:
            bits = value.take((len(numeric) + 7) // 8)
            found.unsigned = {c: bool(bits[i >> 3] << (i & 7) & 0x80) for i, c in enumerate(numeric)}
        elif kind in (2, 10):
            found.charset |= _default_charset(value, texts if kind == 2 else either)
        elif kind in (3, 11):
            found.charset |= _zip(texts if kind == 3 else either, list(value.packed_all()))
        elif kind == 4:
            while value.at < len(value.data):
                found.names.append(value.text())
        elif kind in (5, 6):
            found.labels |= _labels(value, sets if kind == 5 else enums)
        elif kind == 8:
            found.key = list(value.packed_all())
        elif kind == 9:
            found.key = list(value.packed_all())[::2]  # pairs of column and prefix length
        # others (geometry type, visibility, vector dimension, later ones) do not change how rows are read
    return found


def _indexes(columns: list[Column], belongs: Callable[[Column], bool]) -> list[int]:
    return [i for i, column in enumerate(columns) if belongs(column)]


def _default_charset(value: _Reader, columns: list[int]) -> dict[int, int]:
    """One collation for all columns, then pairs (column, collation) for the exceptions."""
    default, *pairs = value.packed_all()
    charset = dict.fromkeys(columns, default)
    for index, collation in zip(pairs[::2], pairs[1::2], strict=True):
        if index >= len(columns):
            raise _damaged("its character sets name columns that it does not have")
        charset[columns[index]] = collation
    return charset


def _labels(value: _Reader, columns: list[int]) -> dict[int, list[bytes]]:
    lists = []
    while value.at < len(value.data):
        lists.append([value.text() for _ in range(value.packed())])
    return _zip(columns, lists)


def _zip(columns: list[int], values: list[_T]) -> dict[int, _T]:
    if len(columns) != len(values):
        raise _damaged(f"its metadata has {len(values)} values for {len(columns)} columns")
    return dict(zip(columns, values, strict=True))


def _complete(column: Column, index: int, found: _Metadata) -> Column:
    charset = found.charset.get(index, 0) if column.type_code != GEOMETRY else 0
    labels = _texts(found.labels[index], charset) if index in found.labels else ()
    name = found.names[index].decode() if found.names else ""
    unsigned = found.unsigned.get(index, False) and column.type_code != YEAR
    return replace(column, name=name, unsigned=unsigned, charset=charset, labels=labels)


def _texts(labels: list[bytes], collation: int) -> tuple[str, ...]:
    from cdc_core.charsets.charsets import text_of  # its kernels are for few tables

    def text(raw: bytes) -> str:
        try:
            return text_of(raw, collation)
        except ValueError:
            return hexadecimal(raw)

    return tuple(map(text, labels))


def _damaged(why: str) -> DecodeError:
    return damaged("a TABLE_MAP event", why)
