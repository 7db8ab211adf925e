"""A column's declaration (information_schema.columns) as the type code and metadata that its TABLE_MAP will have.

A type that is not known gets code 0 (DECIMAL of before MySQL 5.0), which is refused wherever rows are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.labels import declared_labels, unescaped
from cdc_core.schema.table import Column

_PLAIN = {
    "tinyint": ColumnType.TINY, "smallint": ColumnType.SHORT, "mediumint": ColumnType.INT24, "int": ColumnType.LONG,
    "bigint": ColumnType.LONGLONG, "year": ColumnType.YEAR, "date": ColumnType.DATE,
}  # fmt: skip
_FRACTIONAL = {
    "timestamp": ColumnType.TIMESTAMP2, "datetime": ColumnType.DATETIME2, "time": ColumnType.TIME2,
}  # fmt: skip
_LENGTH_BYTES = {
    "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4, "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4,
}  # fmt: skip
_BYTES = {"inet4": 4, "inet6": 16, "uuid": 16}  # MariaDB's, stored as BINARY
_COMPRESSED = {
    ColumnType.VARCHAR: ColumnType.MARIA_VARCHAR_COMPRESSED, ColumnType.BLOB: ColumnType.MARIA_BLOB_COMPRESSED,
}  # fmt: skip
_SHAPES = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
}  # fmt: skip
BINARY = 63  # the collation of bytes
MARIADB = "utf8mb4_general_nopad_ci"  # a collation that MySQL does not have
_GENERATED = re.compile(r"\b(GENERATED|VIRTUAL|PERSISTENT|STORED)\b", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9.]+(?:[eE][-+]?[0-9]+)?|b'[01]*'")


def declared_column(
    name: str,
    data_type: str,
    column_type: str | bytes,
    is_nullable: str,
    comment: str | None,
    collation: str | None,
    octets: int | None,
    precision: int | None,
    scale: int | None,
    fraction: int | None,
    default: str | bytes | None,
    extra: str | None,
    *,
    collations: Mapping[str, int],
) -> Column:
    """One row of information_schema.columns as a column."""
    declared = column_type.decode() if isinstance(column_type, bytes) else column_type
    kind, labels = data_type.lower(), declared_labels(declared)
    code, meta = _type(kind, labels, octets or 0, precision or 0, scale or 0, fraction or 0)
    charset = collations.get(collation, 0) if collation else 0
    if code in (ColumnType.VARCHAR, ColumnType.BLOB, ColumnType.STRING) and not collation:
        charset = BINARY
    if "compressed" in declared.lower() and code in _COMPRESSED:  # MariaDB: a byte more, for its header
        meta, code = meta + (code == ColumnType.VARCHAR), _COMPRESSED[ColumnType(code)]
    unsigned = " unsigned" in declared.lower() and code not in (ColumnType.DECIMAL, ColumnType.YEAR)
    value = default.decode() if isinstance(default, bytes) else default
    value, evaluated = _default(value, extra or "", kind, mariadb=bool(collations.get(MARIADB)))
    nullable = is_nullable == "YES"
    return Column(
        name, int(code), meta, unsigned, nullable, charset, labels, comment or "", declared, value, evaluated,
        generated=bool(_GENERATED.search(extra or "")),
    )  # fmt: skip


def _default(value: str | None, extra: str, kind: str, *, mariadb: bool) -> tuple[str | None, bool]:
    """A constant's text or an expression, and whether it is one. MySQL marks expressions; MariaDB quotes constants and
    writes NULL."""
    if value is None or (mariadb and value.upper() == "NULL"):
        return None, False
    if mariadb and value.startswith("'"):
        return unescaped(value[1:-1]), "?" in value
    evaluated = "default_generated" in extra.lower() or (
        kind in ("datetime", "timestamp") and value.lower().startswith("current_timestamp")
    )
    evaluated |= "?" in value  # perhaps in the place of a character that the catalogue cannot show
    return value, evaluated or (mariadb and not _NUMBER.fullmatch(value))


def _type(
    kind: str, labels: tuple[str, ...], octets: int, precision: int, scale: int, fraction: int
) -> tuple[int, int]:
    if kind in _PLAIN:
        return _PLAIN[kind], 0
    if kind in _FRACTIONAL:
        return _FRACTIONAL[kind], fraction
    if kind in _LENGTH_BYTES:
        return ColumnType.BLOB, _LENGTH_BYTES[kind]
    if kind in _SHAPES:
        return ColumnType.GEOMETRY, 4
    if kind in _BYTES:
        return ColumnType.STRING, _BYTES[kind]
    match kind:
        case "float":
            return ColumnType.FLOAT, 4
        case "double":
            return ColumnType.DOUBLE, 8
        case "decimal":
            return ColumnType.NEWDECIMAL, precision << 8 | scale
        case "bit":
            return ColumnType.BIT, precision // 8 << 8 | precision % 8
        case "char" | "binary":
            return ColumnType.STRING, octets
        case "varchar" | "varbinary":
            return ColumnType.VARCHAR, octets
        case "enum":
            return ColumnType.ENUM, 1 if len(labels) < 256 else 2
        case "set":
            size = (len(labels) + 7) // 8
            return ColumnType.SET, size if size <= 4 else 8
        case "json":
            return ColumnType.JSON, 4
        case "vector":
            return ColumnType.VECTOR, 4
    return ColumnType.DECIMAL, 0
