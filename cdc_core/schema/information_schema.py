"""What the server's catalogue adds to a definition, and the tables that no event has described yet.

The catalogue shows the present, the event the past. Where they differ the event is right, and a catalogue that does not
fit the event is not used: then an event with FULL metadata is enough, and one without it is refused (SchemaError).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from pymysql.connections import Connection
from pymysql.err import Error

from cdc_core.errors import SchemaError, SourceUnavailable
from cdc_core.schema.agreement import check_old_moments, fits, is_full, merged, with_hidden_of
from cdc_core.schema.conventions import read_collations
from cdc_core.schema.declaration import declared_column
from cdc_core.schema.table import PRIMARY, Column, TableSchema

_COLUMNS = """
    SELECT table_schema, table_name, column_name, data_type, column_type, is_nullable, column_comment, collation_name,
           character_octet_length, numeric_precision, numeric_scale, datetime_precision, column_default, extra,
           ordinal_position
    FROM information_schema.columns WHERE table_schema {where} ORDER BY table_schema, table_name, ordinal_position"""
_KEYS = """
    SELECT table_schema, table_name, column_name FROM information_schema.statistics
    WHERE index_name = 'PRIMARY' AND table_schema {where} ORDER BY table_schema, table_name, seq_in_index"""
_MARKED = """
    SELECT table_schema, table_name, column_name FROM information_schema.columns
    WHERE column_key = 'PRI' AND table_schema {where}"""
_UNIQUE = """
    SELECT table_schema, table_name, index_name, column_name FROM information_schema.statistics
    WHERE non_unique = 0 AND index_name <> 'PRIMARY' AND sub_part IS NULL AND column_name IS NOT NULL
    AND table_schema {where} ORDER BY table_schema, table_name, index_name, seq_in_index"""
_METADATA = "SHOW GLOBAL VARIABLES LIKE 'binlog\\_row\\_metadata'"
_TABLES = """
    SELECT table_schema, table_name, table_comment, table_collation FROM information_schema.tables
    WHERE table_type IN ('BASE TABLE', 'SEQUENCE') AND table_schema {where} ORDER BY table_schema, table_name"""
_NAMES = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema {where}"""
_EXPRESSIONS = """
    SELECT count(*) FROM information_schema.statistics
    WHERE expression IS NOT NULL AND table_schema = %s AND table_name = %s"""
_INTERNAL = "NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
_SHOW_HIDDEN_KEYS = "SET /*!80030 show_gipk_in_create_table_and_information_schema = ON, */ @unused = 0"


def complete(schema: TableSchema, connection_factory: Callable[[], Connection[Any]]) -> TableSchema:
    """Adds comments and declared types to a definition; with MINIMAL or no metadata also names, key, signs and labels.

    Raises SchemaError where the event is not enough, SourceError where the server cannot be asked: a definition that
    lacks what the catalogue has would be kept, and its rows would be read wrongly from then on."""
    try:
        with connection_factory() as connection:
            current = definition(connection, schema.database, schema.table, hidden=True)
    except Error as error:
        hint = "Look at the server's log and at its limits (max_connections); the destination tries again."
        raise SourceUnavailable(f"the catalogue cannot be read: {error}", place=schema.name, hint=hint) from error
    if current:
        schema = with_hidden_of(schema, current)
    if current and fits(schema, current):
        check_old_moments(schema, current)
        return merged(schema, current)
    if is_full(schema):
        return schema
    raise _incomplete(schema, "the table has changed since" if current else "the table no longer exists")


def definition(connection: Connection[Any], database: str, table: str, *, hidden: bool = False) -> TableSchema | None:
    """One table's present definition, None when there is none, or it may not be seen. `hidden`: with a column without a
    name and type in the place of each that the catalogue counts and does not show."""
    found = _read(connection, "= %s AND table_name = %s", (database, table), hidden=hidden and _logs_hidden(connection))
    return found[0] if found else None


def definitions(connection: Connection[Any], names: Collection[tuple[str, str]]) -> dict[tuple[str, str], TableSchema]:
    """The present definitions of many tables, by database and name; those that there are, and may be seen."""
    tables: dict[str, list[str]] = {}
    for database, table in names:
        tables.setdefault(database, []).append(table)
    found: dict[tuple[str, str], TableSchema] = {}
    for database, wanted in tables.items():
        listed = ", ".join(["%s"] * len(wanted))
        read = _read(connection, f"= %s AND table_name IN ({listed})", (database, *wanted))
        found |= {(one.database, one.table): one for one in read}
    return {name: found[name] for name in names if name in found}


def read_databases(connection: Connection[Any]) -> dict[str, str]:
    """The default collation of each database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT schema_name, default_collation_name FROM information_schema.schemata")
        return {str(name): str(collation) for name, collation in cursor.fetchall()}


def table_names(connection: Connection[Any]) -> set[tuple[str, str]]:
    """Database and name of all tables, captured or not."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES.format(where=_INTERNAL))
        return {(str(database), str(table)) for database, table in cursor.fetchall()}


def list_tables(connection: Connection[Any], accept: Callable[[str, str], bool]) -> list[TableSchema]:
    """The present definitions of all tables that the filter accepts."""
    tables = _read(connection, _INTERNAL, ())
    return [table for table in tables if accept(table.database, table.table) and not table.is_sequence]


def _incomplete(schema: TableSchema, why: str) -> SchemaError:
    return SchemaError(
        f"the binlog lacks the metadata of {schema.name}, and {why}",
        place=schema.name,
        hint="SET GLOBAL binlog_row_metadata=FULL, start after its last change, and reload it (sluice copy).",
    )


def _read(
    connection: Connection[Any], where: str, arguments: tuple[str, ...], *, hidden: bool = False
) -> list[TableSchema]:
    with connection.cursor() as cursor:
        cursor.execute(_SHOW_HIDDEN_KEYS)
        collations = {name: number for name, (number, _) in read_collations(cursor).items()}
        keys = _keys(cursor, where, arguments)
        cursor.execute(_COLUMNS.format(where=where), arguments)
        columns = _grouped(cursor.fetchall())
        cursor.execute(_TABLES.format(where=where), arguments)
        tables, found = cursor.fetchall(), []
        for database, table, comment, collation in tables:
            rows = columns.get((database, table), ())
            shown = tuple(declared_column(*row[:-1], collations=collations) for row in rows)
            index, key = keys.get((database, table), (PRIMARY, ()))
            made = TableSchema(database, table, shown, key, comment or "", collation or "", key_index=index)
            found.append(_with_hidden(cursor, made, [int(row[-1]) for row in rows]) if hidden else made)
    return found


def _logs_hidden(connection: Connection[Any]) -> bool:
    """Whether TABLE_MAP events have the columns of functional indexes."""
    version = str(connection.get_server_info())  # type: ignore[no-untyped-call]
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return "mariadb" not in version.lower() and (8, 0, 13) <= number <= (8, 0, 17)


def _with_hidden(cursor: Any, table: TableSchema, places: list[int]) -> TableSchema:
    """The columns at their places in the table: those of functional indexes are counted too."""
    cursor.execute(_EXPRESSIONS, (table.database, table.table))
    last = len(places) + int(cursor.fetchone()[0])
    by_place, unseen = dict(zip(places, table.columns, strict=True)), Column("", 0, 0, hidden=True)
    return replace(table, columns=tuple(by_place.get(place, unseen) for place in range(1, last + 1)))


def _keys(cursor: Any, where: str, arguments: tuple[str, ...]) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    """The index and the columns of each table's key.

    Without a primary key, the server takes the first UNIQUE index without NULLs and prefixes in its place. FULL
    metadata call it the primary key, so it is the key of the rows; other events name none. The catalogue marks its
    columns (MySQL manual, "The INFORMATION_SCHEMA COLUMNS Table", COLUMN_KEY).
    """
    cursor.execute(_KEYS.format(where=where), arguments)
    keys = {table: (PRIMARY, tuple(name for (name,) in rows)) for table, rows in _grouped(cursor.fetchall()).items()}
    cursor.execute(_METADATA)
    if str((cursor.fetchone() or ("", ""))[1]).upper() != "FULL":
        return keys
    cursor.execute(_MARKED.format(where=where), arguments)
    marked = {table: {name for (name,) in rows} for table, rows in _grouped(cursor.fetchall()).items()}
    if marked.keys() <= keys.keys():
        return keys
    cursor.execute(_UNIQUE.format(where=where), arguments)
    for table, rows in _grouped(cursor.fetchall()).items():
        for index in dict.fromkeys(index for index, _ in rows):
            columns = tuple(column for one, column in rows if one == index)
            if set(columns) == marked.get(table):
                keys.setdefault(table, (index, columns))
    return keys


def _grouped(rows: Any) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for database, table, *rest in rows:
        groups.setdefault((database, table), []).append(tuple(rest))
    return groups
