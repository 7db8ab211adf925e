"""MySQL's DDL statements in PostgreSQL's language. What has no exact equal there is refused, never guessed.

A mirror needs columns and the primary key: other indexes, NOT NULL, foreign keys and the order of columns are left out.
A column's definition at the source is kept as its comment, and tells what a later change does to its values. Pure:
`columns` tells the columns of a table at the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cdc_core.binlog.statements import of_database
from cdc_core.canal.mirror.postgresql.alter import altered
from cdc_core.canal.mirror.postgresql.clauses import (
    check_charset,
    default,
    definition_comment,
    key,
    named,
    table_comment,
)
from cdc_core.canal.mirror.postgresql.defaults import default_of
from cdc_core.canal.mirror.postgresql.sql import with_own_key, without_schema
from cdc_core.canal.mirror.postgresql.types import read, type_of
from cdc_core.canal.mirror.scope import effects_of
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.schema.ddl import ChangeKind, Effect, EffectKind
from cdc_core.schema.ddl_words import Reader
from cdc_core.schema.sql_text import PLAIN

Columns = Callable[[str, str], Mapping[str, str | None]]  # of a database's table: their comments

_OWN_SCHEMA = "public"  # where sluice_mirror is


def translated(sql: str, database: str, table: str, columns: Columns) -> list[str]:
    """The statements that do the same, none for what changes no table there. `table`: a table's name as the source has
    it. Raises Untranslatable."""
    found, understood = effects_of(sql, database, table)
    if not understood:
        raise Untranslatable("it is not understood")
    if of_database(sql) and any(word.text.lower() == "binary" for word in Reader(sql, PLAIN).words):
        raise Untranslatable("texts of its tables would be bytes")
    return [statement for effect in found for statement in _statements(effect, columns)]


def _statements(effect: Effect, columns: Columns) -> Iterator[str]:
    table = named(effect.database, effect.table)
    match effect.kind:
        case EffectKind.DROP_DATABASE:
            yield from _without_database(effect.database)
        case EffectKind.DROP:
            yield f"DROP TABLE IF EXISTS {table}"
        case EffectKind.TRUNCATE:
            yield f"TRUNCATE TABLE {table}"
        case EffectKind.RENAME:
            yield from _renamed(effect, table)
        case EffectKind.CREATE | EffectKind.CREATE_FILLED:
            if not (effect.conditional and columns(effect.database, effect.table)):
                yield f"CREATE SCHEMA IF NOT EXISTS {named(effect.database)}"
                yield from _created(effect, table)
        case EffectKind.ALTER:
            yield from altered(effect, table, columns(effect.database, effect.table))
        case _:
            raise Untranslatable("it changes rows in a way that its text does not say")


def _without_database(name: str) -> Iterator[str]:
    if name == _OWN_SCHEMA:
        raise Untranslatable(f"the schema {name} has the mirror's own table")
    yield without_schema(name)


def _renamed(effect: Effect, table: str) -> Iterator[str]:
    assert effect.to is not None
    database, name = effect.to
    alter = "ALTER TABLE IF EXISTS" if effect.conditional else "ALTER TABLE"
    if database != effect.database:
        yield f"CREATE SCHEMA IF NOT EXISTS {named(database)}"
        yield with_own_key(table)
        yield f"{alter} {table} SET SCHEMA {named(database)}"
    if name != effect.table:
        yield f"{alter} {named(database, effect.table)} RENAME TO {named(name)}"


def _created(effect: Effect, table: str) -> Iterator[str]:
    if effect.like is not None:
        yield f"CREATE TABLE {table} (LIKE {named(*effect.like)} INCLUDING ALL)"
        return
    lines, comments = [], []
    for one in effect.changes:
        match one.kind:
            case ChangeKind.ADD_COLUMN:
                parts = read(one.definition)
                lines.append(f"{named(one.name)} {type_of(parts)}{default(default_of(parts, one.definition))}")
                comments.append(definition_comment(table, one.name, one.definition))
            case ChangeKind.COMMENT:
                comments.append(table_comment(table, one))
            case ChangeKind.DEFAULT_CHARSET:
                check_charset(one)
    if not lines:
        raise Untranslatable("its text does not say which columns the table has")
    names = {one.name.lower(): one.name for one in effect.changes if one.kind is ChangeKind.ADD_COLUMN}
    lines += [key(one, names) for one in effect.changes if one.kind is ChangeKind.KEY]
    yield f"CREATE TABLE {table} ({', '.join(lines)})"
    yield from comments
