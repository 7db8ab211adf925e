"""Looks rows of a table up at the source by their keys, and finds what a foreign key's cascade changed in them.

The rows are read as a snapshot reads them, so keys are compared in the lake's form. A row that is not found counts as
gone only if the look-up has proven itself on existing rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
import pymysql

from cdc_core.errors import DecodeError, SourceError
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rules.expressions import expression
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import definition
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.chunk import at
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule
from spark_jobs.snapshot.literals import literal, plain
from spark_jobs.snapshot.reading import read_rows

_AT_ONCE = 1_000  # keys of one SELECT
_STATEMENT = 1_000_000  # characters of one SELECT, about; MySQL 5.7 takes 4 MB
_SAMPLE = 100  # rows on which a look-up proves itself
_GENERATED = """
    SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
    AND extra REGEXP 'VIRTUAL|STORED|PERSISTENT'"""

Key = tuple[Any, ...]


class Left(Enum):
    """The effect of a cascade on a row, other than new values in the foreign key's columns."""

    SAME = "same"
    GONE = "gone"
    UNKNOWN = "unknown"  # its own primary key may have changed


class Unproven(Exception):
    """The rows cannot be looked up so that the answer is certain. The text says why."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The rows that a cascade has changed: their numbers among the requested rows, whether each is `gone` from the
    source, and whether it is `there`. `values` has the columns that a cascade may change: NULL in a foreign key that
    lost its parent, and in the generated columns of a row that is not there."""

    rows: list[int]
    gone: list[bool]
    there: list[bool]
    values: pa.Table


def touched(
    connection: pymysql.Connection[Any],
    key: ForeignKey,
    primary_key: Sequence[str],
    rows: pa.Table,
    columns: Sequence[str],
    zero_dates: ZeroDates,
    rules: Rules = NO_RULES,
) -> Touched:
    """Returns the `rows`, the lake's rows that referenced a lost key, that the cascade of `key` changed at the source.
    `columns` are the lake table's. Times as text (`zero_dates` = "string") are compared as text. The values are as
    `rules` show them.

    Raises Unproven, SourceError for a table that lacks the key's columns, and pymysql's errors.
    """
    schema, generated = _definition(connection, key, zero_dates, rules)
    if {*generated} - {*columns} and {*columns} - {column.name for column in schema.shown}:
        raise Unproven("its columns were renamed at the source")
    wanted = (*key.columns, *(name for name in generated if name in columns and name not in key.columns))
    found = _found(connection, schema, primary_key, wanted, rows, zero_dates)
    chosen, gone, numbers = [], [], []
    before = [plain(rows[name]) for name in key.columns]
    after = [plain(found.values[name]) for name in key.columns]
    for row, number in enumerate(found.numbers):
        now = None if number is None else tuple(values[number] for values in after)
        left = left_by(key, primary_key, tuple(values[row] for values in before), now)
        if left is Left.UNKNOWN:
            raise Unproven("the cascade may have changed the row's own primary key")
        if left is not Left.SAME:
            chosen.append(row)
            gone.append(left is Left.GONE)
            numbers.append(number)
    there = [number is not None for number in numbers]
    return Touched(chosen, gone, there, found.values.take(pa.array(numbers, pa.int64())))


def left_by(key: ForeignKey, primary_key: Sequence[str], before: Key, now: Key | None) -> Left | Key:
    """Returns the effect of a foreign key's cascade on a row that referenced a lost key: its columns had the values
    `before`, and the source has `now`, None for a row that is gone."""
    if now is None and key.on_update is Rule.CASCADE and set(key.columns) & set(primary_key):
        return Left.UNKNOWN
    if now is None and key.on_delete is Rule.RESTRICT:
        return Left.SAME  # the binlog has its delete
    if now is None and key.on_delete is Rule.CASCADE:
        return Left.GONE
    after = now if now is not None else (None,) * len(before)
    return Left.SAME if after == before else after


def _definition(
    connection: pymysql.Connection[Any], key: ForeignKey, zero_dates: ZeroDates, rules: Rules
) -> tuple[TableSchema, tuple[str, ...]]:
    """The child's definition, and its columns that are made of others: at the source, or by a rule. Raises SourceError
    for a table that has no such columns."""
    schema = definition(connection, *key.child)
    if schema is None or not {*key.columns} <= {column.name for column in schema.shown}:
        hint = "Grant SELECT on the table; if it was altered meanwhile, the next run sees it."
        message = "there is no such table with its foreign key, or it may not be read"
        raise SourceError(message, place=full_name(*key.child), hint=hint)
    with connection.cursor() as cursor:
        cursor.execute(_GENERATED, key.child)
        generated = {str(name) for (name,) in cursor.fetchall()}
    schema = rules.view(schema.as_read(zero_dates))
    if not has_as_they_are(schema, key.columns):
        raise Unproven("a rule hides, masks or renames the foreign key's columns")
    made = (column for column in schema.shown if column.is_computed or column.source_name in generated)
    return schema, tuple(column.name for column in made)


def has_as_they_are(schema: TableSchema, columns: Sequence[str]) -> bool:
    """Whether the lake has these columns of the source under their names, with its values: of another type too, where
    that has the same ones, as BIGINT UNSIGNED as bigint."""
    same = (column.name for column in schema.shown if column.name == column.source_name and not column.changes_values)
    return {*columns} <= {*same}


@dataclass(frozen=True, slots=True)
class _Found:
    """For each requested row the number of its row in `values`, or None if the source has no such row."""

    numbers: list[int | None]
    values: pa.Table


def _found(
    connection: pymysql.Connection[Any],
    schema: TableSchema,
    primary_key: Sequence[str],
    wanted: Sequence[str],
    rows: pa.Table,
    zero_dates: ZeroDates,
) -> _Found:
    if {*primary_key} != {*schema.primary_key}:
        raise Unproven("the table's primary key changed at the source")
    part = _part(schema, {*primary_key, *wanted})
    fields = {field.name: field.type for field in arrow_fields(part)}
    for name in primary_key:
        if _kind(fields[name]) != _kind(rows.schema.field(name).type):
            raise Unproven(f"its key column {name!r} changed its type at the source")
    with _as_stored(connection):
        look_up = _LookUp(connection, part, zero_dates)
        asked = look_up.keys(rows)
        read = look_up.rows(asked)
        there = {one: number for number, one in enumerate(look_up.keys(read))}
        if not there.keys() <= set(asked):
            raise Unproven("the source has other keys that compare as equal to the lake's")
        if len(there) < len(asked):
            look_up.prove()
    try:
        columns = [
            read[name].cast(rows.schema.field(name).type) if name in rows.schema.names else read[name]
            for name in wanted
        ]
    except pa.ArrowInvalid as error:
        raise Unproven("its columns changed their types at the source") from error
    return _Found([there.get(one) for one in asked], pa.table(dict(zip(wanted, columns, strict=True))))


def _part(schema: TableSchema, names: Collection[str]) -> TableSchema:
    """The definition with these columns alone, and with those of which they are computed."""
    rules = (column.rule for column in schema.columns if column.rule and column.is_computed and column.name in names)
    asked = {name for rule in rules for name in expression(rule.expression).columns}
    columns = (one for one in schema.shown if one.name in names or one.source_name.lower() in asked)
    return replace(schema, columns=tuple(columns))


def _kind(kind: pa.DataType) -> str:
    return f"timestamp {bool(kind.tz)}" if pa.types.is_timestamp(kind) else str(kind)


@contextmanager
def _as_stored(connection: pymysql.Connection[Any]) -> Iterator[None]:
    """One view of the source, whose answers are not converted. After an error the connection is closed, because it may
    have an answer that nobody read."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        yield
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK")
            cursor.execute("SET character_set_results = utf8mb4")
    except BaseException:
        connection._force_close()  # type: ignore[attr-defined]
        raise


@dataclass(frozen=True, slots=True)
class _LookUp:
    """Look-ups in a table of which `schema` has the key and the columns that are read."""

    connection: pymysql.Connection[Any]
    schema: TableSchema
    zero_dates: ZeroDates

    def keys(self, rows: pa.Table) -> list[Key]:
        """The keys of rows, in a form that compares."""
        return list(zip(*(plain(rows[name]) for name in self.schema.primary_key), strict=True))

    def rows(self, keys: Sequence[Key]) -> pa.Table:
        """The rows that have one of the keys. Raises Unproven for a key that cannot be written as it is stored."""
        conditions = [condition for key in keys if (condition := self._condition(key))]
        if len(conditions) < len(keys):
            raise Unproven("a key of its rows cannot be looked up exactly, by its type or its value")
        longest = max(map(len, conditions), default=1)
        step = max(1, min(_AT_ONCE, _STATEMENT // longest))
        parts = [conditions[low : low + step] for low in range(0, len(conditions), step)]
        return self._read(*(" OR ".join(f"({one})" for one in part) for part in parts))

    def prove(self) -> None:
        """Raises Unproven unless rows that are there are found by their keys."""
        sample = self.keys(self._read(f"TRUE LIMIT {_SAMPLE}"))
        there = [key for key in sample if self._condition(key)]
        if {*self.keys(self.rows(there))} != {*there}:
            raise Unproven("existing rows are not found by their keys")

    def _condition(self, key: Key) -> str:
        """Returns the condition for a key, or "" if a value has no literal."""
        columns = {column.name: column for column in self.schema.columns}
        bound = [literal(columns[name], value) for name, value in zip(self.schema.primary_key, key, strict=True)]
        return "" if None in bound else at(self.schema, tuple(map(str, bound)))

    def _read(self, *conditions: str) -> pa.Table:
        try:
            batches = [
                one for where in conditions for one in read_rows(self.connection, self.schema, self.zero_dates, where)
            ]
        except DecodeError as error:
            raise Unproven(error.message) from error
        return pa.Table.from_batches(batches, pa.schema(arrow_fields(self.schema)))
