"""Values as text in the words of the server: what to ask a server for, and how a decoded value is written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pymysql.connections import Connection

from cdc_core.schema.table import Column
from tests.support.type_matrix import moment, span

Row = tuple[str | None, ...]

_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"}
_AS_CHAR = {"json", "uuid", "inet4", "inet6"}
_SHAPES = {"geometry", "point", "multipolygon"}
_FRACTIONAL = {17, 18, 19}
_TIME, _YEAR = (11, 19), 13


def asked(kind: str, name: str) -> str:
    """The expression that selects a column of this data type as text."""
    if kind in _TEXTS:
        return f"HEX(CONVERT(`{name}` USING utf8mb4))"
    if kind in _AS_CHAR:
        return f"HEX(CONVERT(CAST(`{name}` AS CHAR) USING utf8mb4))"
    if kind in _BYTES:
        return f"HEX(`{name}`)"
    if kind in _SHAPES:
        return f"CONCAT(ST_SRID(`{name}`), ' ', HEX(ST_AsBinary(`{name}`)))"
    if kind == "bit":
        return f"CAST(`{name}` + 0 AS CHAR)"
    return f"`{name}` * 1e0" if kind in ("float", "double") else f"CAST(`{name}` AS CHAR)"


def selected(connection: Connection[Any], database: str, table: str) -> tuple[list[str], list[Row]]:
    """The columns and rows of a table as the server selects them."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        cursor.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, table),
        )
        columns = [(str(name), str(kind)) for name, kind in cursor.fetchall()]
        cursor.execute(f"SELECT {', '.join(asked(kind, name) for name, kind in columns)} FROM `{database}`.`{table}`")
        rows = [tuple(repr(v) if isinstance(v, float) else v for v in row) for row in cursor.fetchall()]
    return [name for name, _ in columns], rows


def shown(column: Column) -> Callable[[Any], str | None]:
    """The text of a decoded value of this column."""
    digits = column.meta if column.type_code in _FRACTIONAL else 0

    def text(value: Any) -> str | None:
        if column.type_code in _TIME and value is not None:
            return span(digits)(value)
        return _text(value, column.type_code, digits)

    return text


def _text(value: Any, code: int, digits: int) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(int(value))
        case str():
            return value if code == 246 else value.encode().hex().upper()
        case bytes():
            return value.hex().upper()
        case {"srid": srid, "wkb": wkb}:
            return f"{srid} {wkb.hex().upper()}"
        case list():
            return struct.pack(f"<{len(value)}f", *value).hex().upper()
        case Decimal():
            return f"{value:f}"
        case float():
            return repr(value)
        case datetime():
            return moment(digits)(value)
        case date():
            return value.isoformat()
    return f"{value:04d}" if code == _YEAR else str(value)
