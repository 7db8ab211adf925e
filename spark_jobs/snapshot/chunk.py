"""A chunk: the rows of a table between two keys, in the order in which the server itself compares them."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.sql import quote

Bound = tuple[str, ...]
"""A key as SQL literals, in the order of the key's columns."""

COMPARED = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
"""Must hold in a session that compares with bounds: a zero or partial date may be one."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows after `low` up to and including `high`; None: from the first row, to the last."""

    number: int
    low: Bound | None = None
    high: Bound | None = None


def where(schema: TableSchema, chunk: Chunk) -> str:
    """The condition for a chunk's rows; "" for all rows of the table.

    It is written out, because the optimizer finds no range of an index in `(a, b) > (x, y)` (MySQL manual, "Row
    Constructor Expression Optimization").
    """
    key, low, high = _key(schema), chunk.low, chunk.high
    if low is None or high is None:
        parts = [_side(key, low, ">", ">"), _side(key, high, "<", "<=")]
        return " AND ".join(part for part in parts if part)
    same = 0
    while same < len(key) - 1 and low[same] == high[same]:
        same += 1
    shared = [_compared(column, "=", value) for column, value in zip(key[:same], low[:same], strict=True)]
    sides = [_side(key[same:], low[same:], ">", ">"), _side(key[same:], high[same:], "<", "<=")]
    return " AND ".join([*shared, *sides])


def at(schema: TableSchema, bound: Bound) -> str:
    """The condition for the one row that has a key."""
    return " AND ".join(_compared(column, "=", value) for column, value in zip(_key(schema), bound, strict=True))


def _key(schema: TableSchema) -> list[Column]:
    columns = {column.name: column for column in schema.columns}
    return [columns[name] for name in schema.primary_key]


def _side(key: list[Column], bound: Bound | None, operator: str, last: str) -> str:
    """Returns the condition for one side of a bound. The first column's own range shows the optimizer the index."""
    if not bound:
        return ""
    if len(bound) == 1:
        return _compared(key[0], last, bound[0])
    return f"{_compared(key[0], f'{operator}=', bound[0])} AND {_beyond(key, bound, operator, last)}"


def _beyond(key: list[Column], bound: Bound, operator: str, last: str) -> str:
    column, value = key[0], bound[0]
    if len(bound) == 1:
        return _compared(column, last, value)
    rest = _beyond(key[1:], bound[1:], operator, last)
    return f"({_compared(column, operator, value)} OR ({_compared(column, '=', value)} AND {rest}))"


def _compared(column: Column, operator: str, value: str) -> str:
    """The optimizer has no ranges of ENUM columns, but it has lists of their numbers."""
    name = quote(column.source_name)
    if column.type_code != ColumnType.ENUM or operator == "=":
        return f"{name} {operator} {value}"
    number, count = int(value), len(column.labels) + 1  # 0 is a value that was no label
    numbers = {
        ">": range(number + 1, count),
        ">=": range(number, count),
        "<": range(number),
        "<=": range(number + 1),
    }[operator]
    return f"{name} IN ({', '.join(map(str, numbers))})" if numbers else "FALSE"
