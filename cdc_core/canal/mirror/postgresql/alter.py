"""The clauses of MySQL's ALTER TABLE as statements for PostgreSQL.

MySQL runs all clauses at once and PostgreSQL one after the other; where that makes a difference, a name is missing or
there already, and the whole is refused. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdc_core.canal.mirror.postgresql.clauses import (
    check_charset,
    default,
    definition_comment,
    definition_in,
    key,
    named,
    new_default,
    table_comment,
)
from cdc_core.canal.mirror.postgresql.defaults import default_in_sql, default_of, value_of_rows
from cdc_core.canal.mirror.postgresql.modify import modified
from cdc_core.canal.mirror.postgresql.sql import stops_where, without_column, without_key
from cdc_core.canal.mirror.postgresql.texts import converted, without_charset
from cdc_core.canal.mirror.postgresql.types import read, type_of
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect


def altered(effect: Effect, table: str, there: Mapping[str, str | None]) -> Iterator[str]:
    """`there`: the comments of the target's columns. Raises Untranslatable."""
    if effect.conditional and not there:
        return
    _check_names(effect)
    definitions = {name: definition_in(comment) for name, comment in there.items()}
    names = {name.lower(): name for name in there}
    spelled = names | {name.lower(): name for one in effect.changes for name in (one.to, _new_name(one)) if name}
    for change in sorted(effect.changes, key=_turn):
        name = names.get(change.name.lower(), change.name)
        if change.conditional and (name in there) == (change.kind is ChangeKind.ADD_COLUMN):
            continue
        match change.kind:
            case ChangeKind.KEY:
                yield f"ALTER TABLE {table} ADD {key(change, spelled)}" if change.columns else without_key(table)
            case ChangeKind.MODIFY_COLUMN:
                yield from modified(change, name, definitions, table)
            case ChangeKind.CHARSET:
                yield from converted(change, definitions, table)
            case ChangeKind.DEFAULT_CHARSET:
                check_charset(change)
                yield from without_charset(definitions, table)
            case ChangeKind.FOREIGN_KEY:
                pass  # a mirror has none
            case _:
                yield from _changed(change, name, table)


def _check_names(effect: Effect) -> None:
    """A key that names a column which is dropped and created again names the new one at MySQL."""
    dropped = {one.name.lower() for one in effect.changes if one.kind is ChangeKind.DROP_COLUMN}
    if again := dropped & {name.lower() for one in effect.changes for name in (one.to, _new_name(one)) if name}:
        raise Untranslatable(f"it drops {', '.join(sorted(again))}, and makes a column of this name")


def _turn(change: ColumnChange) -> int:
    """A new key names columns as they are after the statement, all other clauses as they are before it."""
    if change.kind is not ChangeKind.KEY:
        return 1
    return 2 if change.columns else 0


def _new_name(change: ColumnChange) -> str:
    return change.name if change.kind in (ChangeKind.ADD_COLUMN, ChangeKind.MODIFY_COLUMN) and not change.to else ""


def _changed(change: ColumnChange, name: str, table: str) -> Iterator[str]:
    alter, column = f"ALTER TABLE {table}", named(name)
    match change.kind:
        case ChangeKind.ADD_COLUMN:
            yield from _added(change, table)
        case ChangeKind.DROP_COLUMN:
            yield without_column(table, name)
        case ChangeKind.RENAME_COLUMN:
            yield f"{alter} RENAME COLUMN {column} TO {named(change.to or change.name)}"
        case ChangeKind.SET_DEFAULT:
            yield f"{alter} ALTER COLUMN {column} {new_default(default_in_sql(change.definition))}"
        case ChangeKind.DROP_DEFAULT:
            yield f"{alter} ALTER COLUMN {column} DROP DEFAULT"
        case ChangeKind.COMMENT:
            yield table_comment(table, change)
        case _:
            raise Untranslatable(f"{change.definition[:100]} is not understood")


def _added(change: ColumnChange, table: str) -> Iterator[str]:
    parts, column = read(change.definition), named(change.name)
    value, is_said = value_of_rows(parts, change.definition)
    if not is_said:
        message = f"the statement does not say which values existing rows have in {column}"
        yield stops_where(f"EXISTS (SELECT FROM {table})", message)
    yield f"ALTER TABLE {table} ADD COLUMN {column} {type_of(parts)}{default(value)}"
    if (lasting := default_of(parts, change.definition)) != value:
        yield f"ALTER TABLE {table} ALTER COLUMN {column} {new_default(lasting)}"
    yield definition_comment(table, change.name, change.definition)
