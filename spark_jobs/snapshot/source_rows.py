"""Rows of a table at the source, looked up by their primary keys; and what a foreign key's cascade has left of one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import pyarrow as pa
import pymysql

from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule
from spark_jobs.snapshot.oracle import describe
from spark_jobs.snapshot.sql import quote

_AT_ONCE = 1_000  # keys of one SELECT


class Left(Enum):
    """What a cascade has left of a row, where it is not other values in the foreign key's columns."""

    SAME = "same"
    GONE = "gone"
    UNKNOWN = "unknown"  # its own primary key may have changed


def rows_at_source(
    connection: pymysql.Connection[Any],
    table: tuple[str, str],
    primary_key: Sequence[str],
    columns: Sequence[str],
    rows: pa.Table,
) -> list[tuple[Any, ...] | None]:
    """For each of `rows` the present values of `columns` at the source; None where the row is gone there."""
    wanted = (*primary_key, *columns)
    described = {column.name: column for column in describe(connection, *table).columns}
    listed = ", ".join(described[name].expression for name in wanted)
    marks = "(" + ", ".join(["%s"] * len(primary_key)) + ")"
    keys = [tuple(row[name] for name in primary_key) for row in rows.select(list(primary_key)).to_pylist()]
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    names = ", ".join(quote(name) for name in primary_key)
    for at in range(0, len(keys), _AT_ONCE):
        part = keys[at : at + _AT_ONCE]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {listed} FROM {quote(table[0])}.{quote(table[1])} "  # noqa: S608
                f"WHERE ({names}) IN ({', '.join([marks] * len(part))})",
                [value for key in part for value in key],
            )
            answer = cursor.fetchall()
        if not answer:
            continue
        read = [
            described[name].convert(values).to_pylist()
            for name, values in zip(wanted, zip(*answer, strict=True), strict=True)
        ]
        for row in zip(*read, strict=True):
            found[row[: len(primary_key)]] = row[len(primary_key) :]
    return [found.get(key) for key in keys]


def left_by(
    key: ForeignKey, primary_key: Sequence[str], before: tuple[Any, ...], now: tuple[Any, ...] | None
) -> Left | tuple[Any, ...]:
    """What the cascade of a foreign key has left of a row that referenced a lost key: its columns had the values
    `before`, and the source has `now`, None for a row that is gone."""
    if now is None and key.on_update is Rule.CASCADE and set(key.columns) & set(primary_key):
        return Left.UNKNOWN
    if now is None and key.on_delete is Rule.RESTRICT:
        return Left.SAME  # the binlog has its delete
    if now is None and key.on_delete is Rule.CASCADE:
        return Left.GONE
    after = now if now is not None else (None,) * len(before)
    return Left.SAME if after == before else after
