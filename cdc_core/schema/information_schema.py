"""What the server's catalogue adds to a definition, and what it says of tables that no event has described yet.

The catalogue shows the present, the event the past: where both speak the event is right, and a catalogue that does not
fit the event is not used. Then an event with FULL metadata stands alone, and one without is refused (SchemaError).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.err import Error, OperationalError

from cdc_core.errors import SchemaError, SourceError
from cdc_core.schema.declared import MARIADB, declared_column
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
_MARIADB_COLLATIONS = """
    SELECT full_collation_name, id FROM information_schema.collation_character_set_applicability
    WHERE id IS NOT NULL"""
_SHOW_HIDDEN_KEYS = "SET /*!80030 show_gipk_in_create_table_and_information_schema = ON, */ @unused = 0"
_ALIKE = {7: 17, 11: 19, 12: 18, 14: 10, 253: 15, 140: 252, 141: 15}  # other encodings of the same declared type


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
        _check_old_moments(schema, current[0])
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
    if len(schema.shown) != len(current.columns):
        return False
    return all(
        _ALIKE.get(own.type_code, own.type_code) == other.type_code and own.name in ("", other.name)
        for own, other in zip(schema.shown, current.columns, strict=True)
    )


def _check_old_moments(schema: TableSchema, current: TableSchema) -> None:
    """MariaDB's own fractions of before 10.1 (`mysql56_temporal_format=OFF`): no event says how long they are."""
    for own, other in zip(schema.shown, current.columns, strict=True):
        if own.type_code in (7, 11, 12) and other.meta:
            raise SchemaError(
                f"column {other.name}: {other.column_type} in a form that is not known",
                place=schema.name,
                hint="SET GLOBAL mysql56_temporal_format = ON; ALTER TABLE ... FORCE; then start behind that.",
            )


def _merged(schema: TableSchema, current: TableSchema) -> TableSchema:
    full = _is_full(schema)
    others = iter(current.columns)
    columns = tuple(
        own if own.hidden else (_with_words if full else _filled)(own, next(others)) for own in schema.columns
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
        cursor.execute(_SHOW_HIDDEN_KEYS)
        collations = _collations(cursor)
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


def _collations(cursor: Cursor) -> dict[str, int]:
    """Ids by name. MariaDB from 10.10 on tells those that fit several character sets in another table."""
    cursor.execute(_COLLATIONS)
    found = {str(name): int(number) for name, number in cursor.fetchall()}
    if MARIADB in found:
        with suppress(OperationalError):
            cursor.execute(_MARIADB_COLLATIONS)
            found |= {str(name): int(number) for name, number in cursor.fetchall()}
    return found


def _grouped(rows: Any) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for database, table, *rest in rows:
        groups.setdefault((database, table), []).append(tuple(rest))
    return groups
