"""The clauses of MySQL's ALTER TABLE as statements for PostgreSQL.

MySQL runs all clauses at once and PostgreSQL one after the other; where that makes a difference, a name is missing or
there already, and the whole is refused. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdc_core.mirror.postgresql.changes import keeps
from cdc_core.mirror.postgresql.clauses import (
    check_charset,
    default,
    definition_comment,
    definition_in,
    key,
    named,
    new_default,
    table_comment,
)
from cdc_core.mirror.postgresql.sql import stops_where, without_key
from cdc_core.mirror.postgresql.types import declared, default_in_sql, default_of, read, type_of, value_of_rows
from cdc_core.mirror.sql import Untranslatable
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect


def altered(effect: Effect, table: str, there: Mapping[str, str | None]) -> Iterator[str]:
    """`there`: the comments of the target's columns. Raises Untranslatable."""
    if effect.conditional and not there:
        return
    names = {name.lower(): name for name in there}
    spelled = names | {name.lower(): name for one in effect.changes for name in (one.to, _added_name(one)) if name}
    for change in sorted(effect.changes, key=_names_later):
        name = names.get(change.name.lower(), change.name)
        if change.conditional and (name in there) == (change.kind is ChangeKind.ADD_COLUMN):
            continue
        if change.kind is ChangeKind.KEY:
            yield f"ALTER TABLE {table} ADD {key(change, spelled)}" if change.columns else without_key(table)
        elif change.kind is ChangeKind.MODIFY_COLUMN:
            yield from _modified(change, name, there.get(name), table)
        else:
            yield from _changed(change, named(name), table)


def _names_later(change: ColumnChange) -> bool:
    """A new key names columns as they are after the statement, all other clauses as they are before it."""
    return change.kind is ChangeKind.KEY and bool(change.columns)


def _added_name(change: ColumnChange) -> str:
    return change.name if change.kind is ChangeKind.ADD_COLUMN else ""


def _changed(change: ColumnChange, column: str, table: str) -> Iterator[str]:
    alter = f"ALTER TABLE {table}"
    match change.kind:
        case ChangeKind.ADD_COLUMN:
            yield from _added(change, table)
        case ChangeKind.DROP_COLUMN:
            yield f"{alter} DROP COLUMN {column}"
        case ChangeKind.RENAME_COLUMN:
            yield f"{alter} RENAME COLUMN {column} TO {named(change.to or change.name)}"
        case ChangeKind.SET_DEFAULT:
            yield f"{alter} ALTER COLUMN {column} {new_default(default_in_sql(change.definition))}"
        case ChangeKind.DROP_DEFAULT:
            yield f"{alter} ALTER COLUMN {column} DROP DEFAULT"
        case ChangeKind.COMMENT:
            yield table_comment(table, change)
        case ChangeKind.CHARSET | ChangeKind.DEFAULT_CHARSET:
            check_charset(change)
        case _:
            raise Untranslatable(f"{change.definition[:100]} is not understood")


def _added(change: ColumnChange, table: str) -> Iterator[str]:
    parts, column = read(change.definition), named(change.name)
    value, is_said = value_of_rows(parts, change.definition)
    if not is_said:
        message = f"the statement does not say which values the rows of before have in {column}"
        yield stops_where(f"EXISTS (SELECT FROM {table})", message)
    yield f"ALTER TABLE {table} ADD COLUMN {column} {type_of(parts)}{default(value)}"
    if (lasting := default_of(parts)) != value:
        yield f"ALTER TABLE {table} ALTER COLUMN {column} {new_default(lasting)}"
    yield definition_comment(table, change.name, change.definition)


def _modified(change: ColumnChange, name: str, comment: str | None, table: str) -> Iterator[str]:
    column, new = named(name), read(change.definition)
    alter = f"ALTER TABLE {table} ALTER COLUMN {column}"
    before = definition_in(comment)
    if before is None:
        raise Untranslatable(f"the source's definition of {column} is not known: the mirror did not make the column")
    old = read(before)
    if not keeps(old, new):
        raise Untranslatable(f"values of {declared(old)} may be others as {declared(new)}")
    if new.nullable is False and old.nullable is not False:
        yield stops_where(f"EXISTS (SELECT FROM {table} WHERE {column} IS NULL)", f"there are NULLs in {column}")
    if type_of(old) != type_of(new):
        yield f"{alter} DROP DEFAULT"
        yield f"{alter} TYPE {type_of(new)}"
    yield f"{alter} {new_default(default_of(new))}"
    if change.to is not None and change.to != name:
        yield f"ALTER TABLE {table} RENAME COLUMN {column} TO {named(change.to)}"
    yield definition_comment(table, change.to or name, change.definition)
