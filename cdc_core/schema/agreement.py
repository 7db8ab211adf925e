"""Whether an event's definition and another one agree, and what both together say.

An event may have types and lengths alone (MySQL 5.7, MINIMAL metadata) or names, signs, labels and the key as well
(FULL). It never has comments, declared types and defaults.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_core.errors import SchemaError
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema

_ALIKE: dict[int, int] = {  # other encodings of the same declared type
    ColumnType.TIMESTAMP: ColumnType.TIMESTAMP2,
    ColumnType.TIME: ColumnType.TIME2,
    ColumnType.DATETIME: ColumnType.DATETIME2,
    ColumnType.NEWDATE: ColumnType.DATE,
    ColumnType.VAR_STRING: ColumnType.VARCHAR,
    ColumnType.MARIA_BLOB_COMPRESSED: ColumnType.BLOB,
    ColumnType.MARIA_VARCHAR_COMPRESSED: ColumnType.VARCHAR,
}


def is_full(schema: TableSchema) -> bool:
    """Whether an event has the names of its columns, and so all else."""
    return all(column.name for column in schema.columns)


def fits(schema: TableSchema, current: TableSchema) -> bool:
    """Whether both have as many columns, of the same types, and of the same names where the event has names."""
    if len(schema.shown) != len(current.shown):
        return False
    return all(
        alike(own) == alike(other) and own.name in ("", other.name)
        for own, other in zip(schema.shown, current.shown, strict=True)
    )


def with_hidden_of(event: TableSchema, known: TableSchema) -> TableSchema:
    """An event without the columns that another definition of as many hides. MySQL 8.0.13 to 8.0.17 log those of
    functional indexes, and no event says that they are none of the table."""
    same = len(event.columns) == len(known.columns) and event.shown == event.columns
    if not same or known.shown == known.columns:
        return event
    pairs = zip(event.columns, known.columns, strict=True)
    return replace(event, columns=tuple(replace(own, hidden=other.hidden) for own, other in pairs))


def alike(column: Column) -> int:
    """The type code of the declared type's newest encoding."""
    return _ALIKE.get(column.type_code, column.type_code)


def fits_exactly(event: TableSchema, known: TableSchema) -> bool:
    """Whether nothing that the event says contradicts a definition: lengths, NULL, and what it has of signs, labels,
    character sets and the key besides. MariaDB's older and compressed forms of a type have other lengths."""
    if not fits(event, known):
        return False
    full = is_full(event)
    if full and event.primary_key != known.primary_key:
        return False
    return all(
        (own.type_code != other.type_code or own.meta == other.meta)
        and own.nullable == other.nullable
        and own.charset in (0, other.charset)
        and own.labels in ((), other.labels)
        and (not full or own.unsigned == other.unsigned)
        for own, other in zip(event.shown, known.shown, strict=True)
    )


def with_words_of(event: TableSchema, known: TableSchema) -> TableSchema:
    """An event with names, and comments, declared types and defaults of the columns that another definition has too."""
    others = {column.name: column for column in known.columns}
    columns = (
        _with_words(own, others[own.name]) if own.name in others and _same_type(own, others[own.name]) else own
        for own in event.columns
    )
    return replace(event, columns=tuple(columns), comment=known.comment, collation=known.collation)


def with_defaults_of(known: TableSchema, current: TableSchema | None) -> TableSchema:
    """A definition with the catalogue's defaults where its own are as a statement wrote them. One of a column that the
    catalogue does not have so is an expression from here on, which only the server can evaluate."""
    others = {column.name: column for column in current.columns} if current else {}
    return replace(known, columns=tuple(_with_default(own, others.get(own.name, own)) for own in known.columns))


def _with_default(own: Column, other: Column) -> Column:
    if not own.default_as_written:
        return own
    found = other if _same_type(own, other) else own
    return replace(own, default=found.default, default_expression=found.default_expression, default_as_written=False)


def listed(schema: TableSchema | None) -> str:
    """The columns for a message, in their order."""
    if schema is None:
        return "none"
    return ", ".join(f"{c.name or '?'} {c.column_type or _type_name(c)}" for c in schema.shown) or "no columns"


def _type_name(column: Column) -> str:
    try:
        name = ColumnType(column.type_code).name.lower()
    except ValueError:
        name = f"type {column.type_code}"
    return f"{name}({column.meta})" if column.meta else name


def _same_type(own: Column, other: Column) -> bool:
    return (own.type_code, own.meta, own.unsigned) == (other.type_code, other.meta, other.unsigned)


def check_old_moments(schema: TableSchema, current: TableSchema) -> None:
    """Refuses MariaDB's fractions of before 10.1 (`mysql56_temporal_format=OFF`): no event says how long they are."""
    for own, other in zip(schema.shown, current.shown, strict=True):
        if own.type_code in (ColumnType.TIMESTAMP, ColumnType.TIME, ColumnType.DATETIME) and other.meta:
            raise SchemaError(
                f"column {other.name}: {other.column_type} in the format of before MariaDB 10.1",
                place=schema.name,
                hint="SET GLOBAL mysql56_temporal_format = ON; ALTER TABLE ... FORCE; then start after that.",
            )


def merged(schema: TableSchema, current: TableSchema) -> TableSchema:
    full = is_full(schema)
    others = iter(current.shown)
    columns = tuple(
        own if own.hidden else (_with_words if full else _filled)(own, next(others)) for own in schema.columns
    )
    key = schema.primary_key if full else current.primary_key
    return replace(
        schema,
        columns=columns,
        primary_key=key,
        comment=current.comment,
        collation=current.collation,
        key_index=current.key_index,
    )


def _with_words(own: Column, other: Column) -> Column:
    """Adds what no event has: comment, declared type, default."""
    return replace(
        own,
        comment=other.comment,
        column_type=_declared(own, other),
        default=other.default,
        default_expression=other.default_expression or _is_no_label(own, other.default),
        generated=other.generated,
    )


def _is_no_label(own: Column, default: str | None) -> bool:
    """Whether the catalogue spells an ENUM's or SET's default in another way than the event spells its labels."""
    if default is None or not own.labels or default in own.labels:
        return False
    return own.type_code != ColumnType.SET or not set(default.split(",")) <= {"", *own.labels}


def _declared(own: Column, other: Column) -> str:
    """The declared type, unless the column has been changed since."""
    same = (own.meta, own.unsigned, own.labels) == (other.meta, other.unsigned, other.labels)
    return other.column_type if same or own.type_code == ColumnType.JSON else ""


def _filled(own: Column, other: Column) -> Column:
    """Adds names and all else that the event leaves out; keeps the event's type and length."""
    return replace(
        other,
        type_code=own.type_code,
        meta=own.meta,
        nullable=own.nullable,
        charset=own.charset or other.charset,
        default_as_written=False,
    )
