"""What the server's catalogue adds to a definition, and what it says of tables that no event has described yet.

The catalogue shows the present, the event the past: where both speak the event is right, and a catalogue that does not
fit the event is not used. Then an event with FULL metadata stands alone, and one without is refused (SchemaError).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pymysql.connections import Connection
from pymysql.err import Error

from cdc_core.errors import SchemaError, SourceError
from cdc_core.schema.declared import declared_column
from cdc_core.schema.table import Column, TableSchema

_COLUMNS = """
    SELECT table_schema, table_name, column_name, data_type, column_type, is_nullable, column_comment, collation_name,
           character_octet_length, numeric_precision, numeric_scale, datetime_precision, column_default, extra
    FROM information_schema.columns WHERE table_schema {where} ORDER BY table_schema, table_name, ordinal_position"""
_KEYS = """
    SELECT table_schema, table_name, column_name FROM information_schema.statistics
    WHERE index_name = 'PRIMARY' AND table_schema {where} ORDER BY table_schema, table_name, seq_in_index"""
_TABLES = """
    SELECT table_schema, table_name, table_comment FROM information_schema.tables
    WHERE table_type IN ('BASE TABLE', 'SEQUENCE') AND table_schema {where} ORDER BY table_schema, table_name"""
_INTERNAL = "NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
_COLLATIONS = "SELECT collation_name, id FROM information_schema.collations WHERE id IS NOT NULL"
_ALIKE = {7: 17, 11: 19, 12: 18, 14: 10, 253: 15}  # older encodings of the same declared type


def complete(schema: TableSchema, connection_factory: Callable[[], Connection[Any]]) -> TableSchema:
    """A definition with comments and declared types; with MINIMAL or no metadata also names, key, signs, labels."""
    try:
        with connection_factory() as connection:
            current = _read(connection, "= %s AND table_name = %s", (schema.database, schema.table))
    except (Error, SourceError) as error:
        if _is_full(schema):
            return schema
        if isinstance(error, SourceError):
            raise  # says itself whether trying again helps
        raise _incomplete(schema, f"the catalogue cannot be read: {error}") from error
    if current and _fits(schema, current[0]):
        return _merged(schema, current[0])
    if _is_full(schema):
        return schema
    raise _incomplete(schema, "the table is another by now" if current else "the table is gone by now")


def list_tables(connection: Connection[Any], accept: Callable[[str, str], bool]) -> list[TableSchema]:
    """The present definitions of all tables that the filter takes, as the catalogue has them."""
    tables = _read(connection, _INTERNAL, ())
    return [table for table in tables if accept(table.database, table.table) and not table.is_sequence]


def _is_full(schema: TableSchema) -> bool:
    return all(column.name for column in schema.columns)


def _incomplete(schema: TableSchema, why: str) -> SchemaError:
    return SchemaError(
        f"the binlog does not say enough about {schema.name}, and {why}",
        place=schema.name,
        hint="SET GLOBAL binlog_row_metadata=FULL, start behind the table's last change, take a new snapshot of it.",
    )


def _fits(schema: TableSchema, current: TableSchema) -> bool:
    """As many columns, of the same types, and of the same names where the event tells them."""
    if len(schema.columns) != len(current.columns):
        return False
    return all(
        _ALIKE.get(own.type_code, own.type_code) == other.type_code and own.name in ("", other.name)
        for own, other in zip(schema.columns, current.columns, strict=True)
    )


def _merged(schema: TableSchema, current: TableSchema) -> TableSchema:
    full = _is_full(schema)
    columns = tuple(
        _with_words(own, other) if full else _filled(own, other)
        for own, other in zip(schema.columns, current.columns, strict=True)
    )
    key = schema.primary_key if full else current.primary_key
    return replace(schema, columns=columns, primary_key=key, comment=current.comment)


def _with_words(own: Column, other: Column) -> Column:
    """What no event tells: comment, declared type, default."""
    return replace(
        own,
        comment=other.comment,
        column_type=_declared(own, other),
        default=other.default,
        default_expression=other.default_expression,
    )


def _declared(own: Column, other: Column) -> str:
    """The declared type, unless the column has been changed since."""
    same = (own.meta, own.unsigned, own.labels) == (other.meta, other.unsigned, other.labels)
    return other.column_type if same or own.type_code == 245 else ""


def _filled(own: Column, other: Column) -> Column:
    """Names and what else the event leaves out; its own type and length stay."""
    return replace(
        other,
        type_code=own.type_code,
        meta=own.meta,
        nullable=own.nullable,
        charset=own.charset or other.charset,
    )


def _read(connection: Connection[Any], where: str, arguments: tuple[str, ...]) -> list[TableSchema]:
    with connection.cursor() as cursor:
        cursor.execute(_COLLATIONS)
        collations = {str(name): int(number) for name, number in cursor.fetchall()}
        cursor.execute(_KEYS.format(where=where), arguments)
        keys = _grouped(cursor.fetchall())
        cursor.execute(_COLUMNS.format(where=where), arguments)
        columns = _grouped(cursor.fetchall())
        cursor.execute(_TABLES.format(where=where), arguments)
        tables = cursor.fetchall()
    return [
        TableSchema(
            database,
            table,
            tuple(declared_column(*row, collations=collations) for row in columns.get((database, table), ())),
            tuple(name for (name,) in keys.get((database, table), ())),
            comment or "",
        )
        for database, table, comment in tables
    ]


def _grouped(rows: Any) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for database, table, *rest in rows:
        groups.setdefault((database, table), []).append(tuple(rest))
    return groups
