"""What a DDL statement makes of a table's definition: `definition_after`.

It knows what the text says, and nothing else: None means that the text is not enough, and the catalogue is to be asked.
Source: MySQL manual, "ALTER TABLE Statement"; `mysql_prepare_alter_table` for the order of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cdc_core.schema.column_definition import column_of, default_of
from cdc_core.schema.conventions import Conventions
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind
from cdc_core.schema.declaration import BINARY
from cdc_core.schema.table import Column, TableSchema

_CREATES = (EffectKind.CREATE, EffectKind.CREATE_FILLED)


class _Unknown(Exception):
    """The text does not say what the definition becomes."""


def definition_after(schema: TableSchema | None, effect: Effect, conventions: Conventions) -> TableSchema | None:
    """The definition behind an effect that leaves a table; None where that cannot be known from the text.

    `schema` is the one before it: of the table itself, of the one that CREATE ... LIKE copies, or, for a CREATE from a
    list of columns, one without columns that has the database's collation."""
    if schema is None:
        return None
    if effect.kind is EffectKind.RENAME:
        return None if effect.to is None else replace(schema, database=effect.to[0], table=effect.to[1])
    if effect.kind in (EffectKind.TRUNCATE, EffectKind.REWRITE):
        return schema
    if effect.kind in _CREATES:
        schema = replace(schema, database=effect.database, table=effect.table)
        if effect.like is not None:
            return schema
    try:
        made = _altered(schema, effect.changes, conventions)
    except _Unknown:
        return None
    return made if made.columns else None


def _altered(schema: TableSchema, changes: Sequence[ColumnChange], conventions: Conventions) -> TableSchema:
    if any(change.kind is ChangeKind.UNKNOWN for change in changes):
        raise _Unknown
    of_columns = _applicable(schema, changes)
    schema = _with_charset(schema, changes, of_columns, conventions)
    columns = _placed(schema, of_columns, conventions)
    names = {_fold(c.name): c.to for c in of_columns if c.to is not None}
    dropped = {_fold(c.name) for c in of_columns if c.kind is ChangeKind.DROP_COLUMN}
    key = tuple(names.get(_fold(name)) or name for name in schema.primary_key if _fold(name) not in dropped)
    for change in changes:
        if change.kind is ChangeKind.KEY:
            key = _key(change, columns)
    keyed = {_fold(name) for name in key}
    columns = [replace(c, nullable=False) if _fold(c.name) in keyed else c for c in columns]
    comments = [change.definition for change in changes if change.kind is ChangeKind.COMMENT]
    return replace(schema, columns=tuple(columns), primary_key=key, comment=[schema.comment, *comments][-1])


def _applicable(schema: TableSchema, changes: Iterable[ColumnChange]) -> list[ColumnChange]:
    """The changes of columns that do something: IF EXISTS and IF NOT EXISTS may not."""
    there = {_fold(column.name) for column in schema.columns}
    found = []
    for change in changes:
        if not change.name:
            continue
        adds = change.kind is ChangeKind.ADD_COLUMN
        if change.conditional and (_fold(change.name) in there) == adds:
            continue
        found.append(change)
    return found


def _placed(schema: TableSchema, changes: list[ColumnChange], conventions: Conventions) -> list[Column]:
    """The columns in their order: those that stay in place first, then what is added or moved, clause by clause."""
    by_name: dict[str, list[ColumnChange]] = {}
    for change in changes:
        if change.kind is not ChangeKind.ADD_COLUMN:
            by_name.setdefault(_fold(change.name), []).append(change)
    columns, moved = [], {}
    for column in schema.columns:
        own = by_name.pop(_fold(column.name), [])
        if any(change.kind is ChangeKind.DROP_COLUMN for change in own):
            continue
        for change in own:
            column = _changed(column, change, schema.collation, conventions)
        last = next((change for change in own if change.after is not None), None)
        if last is None:
            columns.append(column)
        else:
            moved[id(last)] = column
    if by_name:
        raise _Unknown  # it changes a column that is not there
    for change in changes:
        if change.kind is ChangeKind.ADD_COLUMN:
            made = column_of(change.name, change.definition, schema.collation, conventions)
            _insert(columns, _known(made), change.after)
        elif id(change) in moved:
            _insert(columns, moved[id(change)], change.after)
    if len({_fold(column.name) for column in columns}) < len(columns):
        raise _Unknown
    return columns


def _changed(column: Column, change: ColumnChange, collation: str, conventions: Conventions) -> Column:
    match change.kind:
        case ChangeKind.RENAME_COLUMN:
            return replace(column, name=change.to or column.name)
        case ChangeKind.MODIFY_COLUMN:
            return _known(column_of(change.to or column.name, change.definition, collation, conventions))
        case ChangeKind.SET_DEFAULT:
            return _known(default_of(column, change.definition, conventions))
        case ChangeKind.DROP_DEFAULT:
            return replace(column, default=None, default_expression=False, default_as_written=False)
    raise _Unknown


def _insert(columns: list[Column], column: Column, after: str | None) -> None:
    if after is None:
        columns.append(column)
    elif not after:
        columns.insert(0, column)
    else:
        names = [_fold(one.name) for one in columns]
        if _fold(after) not in names:
            raise _Unknown
        columns.insert(names.index(_fold(after)) + 1, column)


def _key(change: ColumnChange, columns: Sequence[Column]) -> tuple[str, ...]:
    names = {_fold(column.name): column.name for column in columns}
    if any(_fold(name) not in names for name in change.columns):
        raise _Unknown
    return tuple(names[_fold(name)] for name in change.columns)


def _with_charset(
    schema: TableSchema, changes: Sequence[ColumnChange], of_columns: list[ColumnChange], conventions: Conventions
) -> TableSchema:
    """With another collation for columns that come without one. CONVERT TO converts those that stay, too."""
    defined = (ChangeKind.MODIFY_COLUMN, ChangeKind.DROP_COLUMN)
    others = {_fold(change.name) for change in of_columns if change.kind in defined}
    charsets = [change for change in changes if change.kind in (ChangeKind.CHARSET, ChangeKind.DEFAULT_CHARSET)]
    for change in sorted(charsets, key=lambda one: one.definition.startswith("COLLATE ")):
        collation = _collation(change.definition, conventions)
        columns = schema.columns
        if change.kind is ChangeKind.CHARSET:
            columns = tuple(
                c if _fold(c.name) in others else _in_charset(c, collation, conventions) for c in schema.columns
            )
        schema = replace(schema, columns=columns, collation=collation)
    return schema


def _collation(text: str, conventions: Conventions) -> str:
    """The collation of `charset`, `charset COLLATE collation` or `COLLATE collation`."""
    name, _, collation = text.rpartition("COLLATE ") if "COLLATE " in text else (text, "", "")
    charset = conventions.charset(name.strip())
    if collation:
        found = conventions.collation(collation, charset.name if charset else "")
    else:
        found = charset.collation if charset else ""
    if not found or found == "binary":
        raise _Unknown
    return found


def _in_charset(column: Column, collation: str, conventions: Conventions) -> Column:
    """A column after CONVERT TO: its declared type says how many characters it holds."""
    if column.charset in (0, BINARY):
        return column
    if not column.column_type.startswith(("char", "varchar", "enum", "set", "longtext")):
        raise _Unknown  # a TEXT may become a longer one
    made = column_of(column.name, column.column_type, collation, conventions)
    return replace(column, meta=_known(made).meta, charset=_known(made).charset)


def _known(column: Column | None) -> Column:
    if column is None:
        raise _Unknown
    return column


def _fold(name: str) -> str:
    return name.lower()
