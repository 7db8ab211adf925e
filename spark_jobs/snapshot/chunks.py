"""Cuts a table into chunks of about as many rows, however its keys are spread, by a walk along its key's index.

Each step asks for the key that many rows after the last one, in its own short transaction. The number of a chunk's
rows may differ when it is read, because others write meanwhile. Each row that stays is in exactly one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql

from cdc_core.errors import SourceError
from cdc_core.schema.table import TableSchema
from spark_jobs.snapshot.chunk import COMPARED, Bound, Chunk, at, where
from spark_jobs.snapshot.key import Key, ordered_key
from spark_jobs.snapshot.sql import quote

_AS_STORED = "SET character_set_results = NULL"  # the server converts no answer


class UnorderedKey(SourceError):
    """A key cannot bound chunks, because it does not find its own row. All rows can be read at once."""


def plan_chunks(
    connection: pymysql.Connection[Any],
    schema: TableSchema,
    rows_per_chunk: int,
    *,
    after: Chunk | None = None,
    upto: Bound | None = None,
) -> Iterator[Chunk]:
    """Yields the table's chunks after `after`, in the order of its key. The last one has no end. `upto`: a key after
    which no other chunk ends, so that the walk ends however fast others append.

    A table whose key gives no order is one chunk. The connection is the walk's own from now on.
    Raises UnorderedKey for a key that does not match the stored key, and pymysql's errors.
    """
    if after is not None and after.high is None:
        return
    number, low = (after.number + 1, after.high) if after else (0, None)
    key = ordered_key(connection, schema)
    if key is None:
        yield Chunk(number, low)
        return
    _prepare(connection)
    while (high := _bound(connection, schema, key, Chunk(0, low, upto), rows_per_chunk)) is not None:
        yield Chunk(number, low, high)
        number, low = number + 1, high
    yield Chunk(number, low)


def _prepare(connection: pymysql.Connection[Any]) -> None:
    """Answers come as the bytes that are stored."""
    connection.use_unicode, connection.decoders = False, {}
    with connection.cursor() as cursor:
        cursor.execute(_AS_STORED)
        cursor.execute(COMPARED)


def _bound(
    connection: pymysql.Connection[Any], schema: TableSchema, key: Key, within: Chunk, rows: int
) -> Bound | None:
    """The key of the last of so many rows from the beginning of a range, None when there are fewer."""
    table, in_range = _table(schema), where(schema, within)
    condition = f" WHERE {in_range}" if in_range else ""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {key.selected} FROM {table}{condition} ORDER BY {key.order} LIMIT 1 OFFSET {rows - 1}"  # noqa: S608
            )
            row = cursor.fetchone()
            if row is None:
                return None
            bound = key.bound(row)
            cursor.execute(f"SELECT 1 FROM {table} WHERE {at(schema, bound)}")  # noqa: S608
            if len(cursor.fetchall()) != 1:
                raise _ambiguous(schema, bound)
            return bound
    finally:
        connection.rollback()  # ends the step's snapshot


def last_key(connection: pymysql.Connection[Any], schema: TableSchema) -> Bound | None:
    """Returns the table's last key by now; None for an empty table, and for a table of one chunk. The connection is the
    walk's own from now on. Raises pymysql's errors."""
    key = ordered_key(connection, schema)
    if key is None:
        return None
    _prepare(connection)
    order = ", ".join(f"{quote(column.name)} DESC" for column in key.columns)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {key.selected} FROM {_table(schema)} ORDER BY {order} LIMIT 1")  # noqa: S608
            row = cursor.fetchone()
            return None if row is None else key.bound(row)
    finally:
        connection.rollback()


def _table(schema: TableSchema) -> str:
    return f"{quote(schema.database)}.{quote(schema.table)} FORCE INDEX ({quote(schema.key_index)})"


def _ambiguous(schema: TableSchema, bound: Bound) -> UnorderedKey:
    hint = (
        "CHECK TABLE at the source, and rebuild its index where the server was upgraded; or read the table at once: "
        f"`sluice copy DESTINATION {schema.name}`."
    )
    return UnorderedKey(f"the key ({', '.join(bound)}) does not match the stored key", place=schema.name, hint=hint)
