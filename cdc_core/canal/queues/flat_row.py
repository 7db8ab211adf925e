"""Rows of entries as JSON objects, for kernels. What takes room asks first; -1 says that the output is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc_core.canal.entries.wire import put_digits
from cdc_core.canal.queues.route import AFTER, BEFORE, read_column
from cdc_core.canal.queues.scan import read_field
from cdc_core.compiled.kernel import Bytes, helper, int64
from cdc_core.rows.columns.json_scalar import put_quoted

ROOM = 512  # bytes of a message beside its texts, or of a column beside its value
NAMES_OF_KEY, MYSQL_TYPES, JAVA_TYPES = range(3)
_NULL = np.frombuffer(b"null", np.uint8)


@helper
def put_null(out: Bytes, at: int) -> int:
    for k in range(len(_NULL)):
        out[at + k] = _NULL[k]
    return at + len(_NULL)


@helper
def put_signed(value: int, out: Bytes, at: int) -> int:
    if value < 0:
        out[at] = 0x2D
        return put_digits(-value, out, at + 1)
    return put_digits(value, out, at)


@helper
def put_name(data: Bytes, column: Any, out: Bytes, at: int, first: int) -> int:
    """A comma unless it is the first, the column's name, a colon."""
    if not first:
        out[at] = 0x2C
        at += 1
    at = put_quoted(data, column.name, column.name_end, out, at)
    out[at] = 0x3A
    return at + 1


@helper
def put_value(data: Bytes, column: Any, out: Bytes, at: int) -> int:
    if column.null:
        return put_null(out, at)
    return put_quoted(data, column.value, column.value_end, out, at)


@helper
def fits(column: Any, out: Bytes, at: int) -> bool:
    texts = column.name_end - column.name + column.value_end - column.value + column.type_end - column.type
    return bool(at + 6 * texts + ROOM < len(out))


@helper
def put_image(data: Bytes, at: int, stop: int, image: int, out: Bytes, to: int) -> int:
    """One row as an object; -1 when the output is full."""
    out[to] = 0x7B
    to += 1
    first = True
    while at < stop:
        number, start, end, _long = read_field(data, at)
        if number == image:
            column = read_column(data, start, end)
            if not fits(column, out, to):
                return int64(-1)
            to = put_value(data, column, out, put_name(data, column, out, to, first))
            first = False
        at = end
    out[to] = 0x7D
    return int64(to + 1)


@helper
def put_old(data: Bytes, at: int, stop: int, out: Bytes, to: int) -> int:
    """What an update's columns were before; -1 when the output is full."""
    out[to] = 0x7B
    to += 1
    first, after = True, at
    while at < stop:
        number, start, end, _long = read_field(data, at)
        if number == BEFORE:
            column = read_column(data, start, end)
            if not fits(column, out, to):
                return int64(-1)
            # The new image has its columns in the same order: the next one is most often the same column.
            changed = found = False
            while after < stop and not found:
                field, begin, finish, _wide = read_field(data, after)
                if field == AFTER:
                    other = read_column(data, begin, finish)
                    if other.index > column.index:
                        break
                    if other.index == column.index:
                        changed, found = bool(other.updated), True
                after = finish
            if changed:
                to = put_value(data, column, out, put_name(data, column, out, to, first))
                first = False
        at = end
    out[to] = 0x7D
    return int64(to + 1)


@helper
def put_columns(data: Bytes, at: int, stop: int, image: int, what: int, out: Bytes, to: int) -> int:
    """The names of the key's columns, or the types of all by name; null where there are none. -1 when it is full."""
    opening = to
    out[to] = 0x5B if what == NAMES_OF_KEY else 0x7B
    to += 1
    first = True
    while at < stop:
        number, start, end, _long = read_field(data, at)
        if number == image:
            column = read_column(data, start, end)
            if not fits(column, out, to):
                return int64(-1)
            if what == NAMES_OF_KEY:
                if column.key:
                    if not first:
                        out[to] = 0x2C
                        to += 1
                    to = put_quoted(data, column.name, column.name_end, out, to)
                    first = False
            else:
                to = put_name(data, column, out, to, first)
                first = False
                if what == MYSQL_TYPES:
                    to = put_quoted(data, column.type, column.type_end, out, to)
                else:
                    to = put_signed(column.sql_type, out, to)
        at = end
    if first:
        return put_null(out, opening)
    out[to] = 0x5D if what == NAMES_OF_KEY else 0x7D
    return int64(to + 1)
