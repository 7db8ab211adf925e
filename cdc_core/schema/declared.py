"""A column as declared (information_schema.columns) into the type code and metadata that its TABLE_MAP will have.

Best effort: types without an equal here get code 0, which is refused wherever rows are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdc_core.schema.table import Column

_PLAIN = {"tinyint": 1, "smallint": 2, "mediumint": 9, "int": 3, "bigint": 8, "year": 13, "date": 10}
_FRACTIONAL = {"timestamp": 17, "datetime": 18, "time": 19}
_LENGTH_BYTES = {
    "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4, "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4,
}  # fmt: skip
_BYTES = {"inet4": 4, "inet6": 16, "uuid": 16}  # MariaDB's, stored as BINARY
_SHAPES = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
}  # fmt: skip
BINARY = 63  # the collation of bytes
MARIADB = "utf8mb4_general_nopad_ci"  # a collation that MySQL does not have
_NUMBER = re.compile(r"-?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_LABEL = re.compile(r"'((?:[^']|'')*)'")


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
    kind, labels = data_type.lower(), _labels(declared)
    code, meta = _type(kind, labels, octets or 0, precision or 0, scale or 0, fraction or 0)
    charset = collations.get(collation, 0) if collation else 0
    if code in (15, 252, 254) and not collation:
        charset = BINARY
    unsigned = " unsigned" in declared.lower() and code not in (0, 13)
    value = default.decode() if isinstance(default, bytes) else default
    value, evaluated = _default(value, extra or "", kind, mariadb=bool(collations.get(MARIADB)))
    nullable = is_nullable == "YES"
    return Column(name, code, meta, unsigned, nullable, charset, labels, comment or "", declared, value, evaluated)


def _default(value: str | None, extra: str, kind: str, *, mariadb: bool) -> tuple[str | None, bool]:
    """A constant's text, or an expression. MySQL marks expressions; MariaDB quotes constants and writes NULL."""
    if value is None or (mariadb and value.upper() == "NULL"):
        return None, False
    if mariadb and value.startswith("'"):
        return value[1:-1].replace("''", "'"), False
    evaluated = "default_generated" in extra.lower() or (
        kind in ("datetime", "timestamp") and value.lower().startswith("current_timestamp")
    )
    return value, evaluated or (mariadb and not _NUMBER.fullmatch(value))


def _labels(declared: str) -> tuple[str, ...]:
    if not declared.lower().startswith(("enum(", "set(")):
        return ()
    return tuple(label.replace("''", "'") for label in _LABEL.findall(declared))


def _type(
    kind: str, labels: tuple[str, ...], octets: int, precision: int, scale: int, fraction: int
) -> tuple[int, int]:
    if kind in _PLAIN:
        return _PLAIN[kind], 0
    if kind in _FRACTIONAL:
        return _FRACTIONAL[kind], fraction
    if kind in _LENGTH_BYTES:
        return 252, _LENGTH_BYTES[kind]
    if kind in _SHAPES:
        return 255, 4
    if kind in _BYTES:
        return 254, _BYTES[kind]
    match kind:
        case "float":
            return 4, 4
        case "double":
            return 5, 8
        case "decimal":
            return 246, precision << 8 | scale
        case "bit":
            return 16, precision // 8 << 8 | precision % 8
        case "char" | "binary":
            return 254, octets
        case "varchar" | "varbinary":
            return 15, octets
        case "enum":
            return 247, 1 if len(labels) < 256 else 2
        case "set":
            size = (len(labels) + 7) // 8
            return 248, size if size <= 4 else 8
        case "json":
            return 245, 4
        case "vector":
            return 242, 4
    return 0, 0
