"""TABLE_MAP events into definitions: what the server itself says about the rows that follow.

Says nothing that the event does not: with MINIMAL metadata the columns have no names and there is no key
(`schema.information_schema` completes them). Raises DecodeError without a place; the annotator adds it.
Source: MySQL source documentation, `Table_map_event`; MariaDB 10.5 and later write the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cdc_core.errors import DecodeError
from cdc_core.schema.table import Column, TableSchema

STRING, VAR_STRING, VARCHAR, ENUM, SET, BIT, NEWDECIMAL, BLOB, GEOMETRY = 254, 253, 15, 247, 248, 16, 246, 252, 255
JSON, VECTOR = 245, 242
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141  # MariaDB's
_ONE_BYTE = {4, 5, 17, 18, 19, 249, 250, 251, BLOB, GEOMETRY, JSON, VECTOR, BLOB_COMPRESSED}
_NO_BYTES = {1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14}
YEAR = 13
_HIDDEN = "DB_ROW_HASH_"
_NUMERIC = {1, 2, 3, 4, 5, 8, 9, YEAR, NEWDECIMAL}
_CHARACTER = {STRING, VAR_STRING, VARCHAR, BLOB, 249, 250, 251, BLOB_COMPRESSED, VARCHAR_COMPRESSED}

_T = TypeVar("_T")


@dataclass(slots=True)
class _Reader:
    """A cursor over bytes that refuses to leave them."""

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
    """The optional fields, gathered before they are laid over the columns."""

    unsigned: dict[int, bool] = field(default_factory=dict)
    charset: dict[int, int] = field(default_factory=dict)
    names: list[bytes] = field(default_factory=list)
    labels: dict[int, list[bytes]] = field(default_factory=dict)
    key: list[int] = field(default_factory=list)


def parse(body: bytes, mariadb: bool = False) -> TableSchema:
    """The definition in a TABLE_MAP event's body, which starts behind the header, table id and flags.

    MariaDB counts GEOMETRY among the columns that have a character set, and logs columns that SELECT does not know."""
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
        raise _damaged("its metadata speaks of columns that it does not have")
    columns = [_complete(c, i, found) for i, c in enumerate(columns)]
    if mariadb:
        columns = [replace(c, hidden=c.name.startswith(_HIDDEN)) for c in columns]
    return TableSchema(database, table, tuple(columns), tuple(columns[i].name for i in found.key))


def names_in(body: bytes) -> tuple[str, str]:
    """Database and table alone: enough to ask the filter."""
    reader = _Reader(body)
    try:
        return _identifier(reader), _identifier(reader)
    except ValueError as error:
        raise _damaged(str(error)) from error


def _identifier(reader: _Reader) -> str:
    """A name: length, bytes and a zero."""
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
            raise _damaged(f"a string is said to be of type {column.type_code}")
        return column
    if code == NEWDECIMAL:
        return Column("", code, metas.byte() << 8 | metas.byte())
    if code in (VARCHAR, VAR_STRING, BIT, VARCHAR_COMPRESSED):
        return Column("", code, int.from_bytes(metas.take(2), "little"))
    raise DecodeError(
        f"a column has type code {code}, which is not known",
        hint="Leave the table out with canal.instance.filter.black.regex.",
    )


def _string(kind: int, length: int) -> Column:
    """CHAR, BINARY, ENUM or SET. A CHAR over 255 bytes hides two bits of its length in the type's code."""
    if kind & 0x30 != 0x30:
        return Column("", kind | 0x30, length | ((kind & 0x30) ^ 0x30) << 4)
    return Column("", kind, length)


def _optional(reader: _Reader, columns: list[Column], character: set[int]) -> _Metadata:
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
    """One collation for all, then pairs (which of these columns, its collation) for the exceptions."""
    default, *pairs = value.packed_all()
    charset = dict.fromkeys(columns, default)
    for index, collation in zip(pairs[::2], pairs[1::2], strict=True):
        if index >= len(columns):
            raise _damaged("its character sets speak of columns that it does not have")
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
    from cdc_core.binlog.columns.charsets import label  # its kernels are for few tables

    return tuple(label(raw, collation) for raw in labels)


def _damaged(what: str) -> DecodeError:
    return DecodeError(
        f"a TABLE_MAP event is damaged: {what}",
        hint="Check the source's binlog with mysqlbinlog --verify-binlog-checksum.",
    )
