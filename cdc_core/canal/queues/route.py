"""The partition of each row: Canal's hashes of keys, as its MQ producers compute them.

Source: Canal's `MQMessageUtils.messagePartition`; Java SE, `String.hashCode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from cdc_core.canal.queues.scan import ENTRY, ROW, read_field
from cdc_core.compiled.kernel import (
    BYTES,
    LONGS,
    OUT_INTS,
    OUT_LONGS,
    Bytes,
    Longs,
    helper,
    int64,
    kernel,
    named,
    records,
)

FIXED, BY_KEY, BY_NAMES = range(3)
ROUTE = np.dtype(
    [
        ("mode", "<i4"),
        ("partition", "<i4"),  # of FIXED
        ("statements", "<i4"),  # the partition of what has no rows
        ("partitions", "<i4"),
        ("seed", "<i4"),  # the hash of the database, or 0
        ("first", "<i4"),  # of BY_NAMES: its columns among `names`
        ("last", "<i4"),
        ("topic", "<i4"),
    ]
)
_DELETE = 3
BEFORE, AFTER = 1, 2  # fields of a row


class RouteColumn(NamedTuple):
    """A column of a row: places of its texts, and its flags."""

    index: Any
    sql_type: Any
    name: Any
    name_end: Any
    key: Any
    updated: Any
    null: Any
    value: Any
    value_end: Any
    type: Any
    type_end: Any


class Routes(NamedTuple):
    """A route for each name of the piece, and the columns that routes name, in lower case."""

    routes: Any
    names: Any
    ends: Any


ROUTES = named(Routes, records(ROUTE), BYTES, LONGS)


@helper
def read_column(data: Bytes, at: int, stop: int) -> RouteColumn:
    index = sql_type = name = name_end = key = updated = null = value = value_end = kind = kind_end = int64(0)
    while at < stop:
        number, start, end, _long = read_field(data, at)
        if number == 1:
            index = start
        elif number == 2:
            sql_type = start
        elif number == 3:
            name, name_end = start, end
        elif number == 4:
            key = start
        elif number == 5:
            updated = start
        elif number == 6:
            null = start
        elif number == 8:
            value, value_end = start, end
        elif number == 10:
            kind, kind_end = start, end
        at = end
    return RouteColumn(index, sql_type, name, name_end, key, updated, null, value, value_end, kind, kind_end)


@helper
def shown(event: int) -> int:
    """Which image of a row is its data."""
    return BEFORE if event == _DELETE else AFTER


@helper
def _hash(data: Bytes, at: int, end: int) -> np.int32:
    """`String.hashCode` of a text in UTF-8: over its units of UTF-16."""
    value = np.uint32(0)
    many = np.uint32(31)
    while at < end:
        byte = np.uint32(data[at])
        if byte < np.uint32(0x80):
            value = np.uint32(value * many + byte)
            at += 1
        elif byte < np.uint32(0xE0):
            value = np.uint32(
                value * many + ((byte & np.uint32(0x1F)) << np.uint32(6) | np.uint32(data[at + 1]) & np.uint32(0x3F))
            )
            at += 2
        elif byte < np.uint32(0xF0):
            unit = (byte & np.uint32(0x0F)) << np.uint32(12) | (np.uint32(data[at + 1]) & np.uint32(0x3F)) << np.uint32(
                6
            )
            value = np.uint32(value * many + (unit | np.uint32(data[at + 2]) & np.uint32(0x3F)))
            at += 3
        else:
            point = (byte & np.uint32(0x07)) << np.uint32(18) | (
                np.uint32(data[at + 1]) & np.uint32(0x3F)
            ) << np.uint32(12)
            point |= (np.uint32(data[at + 2]) & np.uint32(0x3F)) << np.uint32(6) | np.uint32(data[at + 3]) & np.uint32(
                0x3F
            )
            point -= np.uint32(0x10000)
            value = np.uint32(value * many + (np.uint32(0xD800) + (point >> np.uint32(10))))
            value = np.uint32(value * many + (np.uint32(0xDC00) + (point & np.uint32(0x3FF))))
            at += 4
    return np.int32(value)


@helper
def _is_named(data: Bytes, column: RouteColumn, route: Any, names: Bytes, ends: Longs) -> bool:
    size = column.name_end - column.name
    for k in range(route.first, route.last):
        if ends[k + 1] - ends[k] == size:
            same = True
            for i in range(size):
                byte = int64(data[column.name + i])
                if 0x41 <= byte <= 0x5A:
                    byte += 0x20
                if byte != names[ends[k] + i]:
                    same = False
                    break
            if same:
                return True
    return False


@helper
def _partition(data: Bytes, at: int, stop: int, image: int, route: Any, routes: Routes) -> int:
    """Of one row."""
    found = np.int32(route.seed)
    while at < stop:
        number, start, end, _long = read_field(data, at)
        if number == image:
            column = read_column(data, start, end)
            if route.mode == BY_KEY:
                counts = column.key != 0
            else:
                counts = _is_named(data, column, route, routes.names, routes.ends)
            if counts:
                found ^= _hash(data, column.value, column.value_end)
        at = end
    size = int64(abs(int64(found)))
    if size == 2147483648:  # Math.abs leaves it negative, and so is the remainder, of which Canal takes abs again
        return abs(int64(-((size) % int64(route.partitions))))
    return size % int64(route.partitions)


@kernel(types.void(BYTES, records(ENTRY), types.int64, ROUTES, OUT_LONGS, OUT_INTS))
def rows_of(data: Bytes, entries: Any, number: int, routes: Routes, places: Longs, partitions: Any) -> None:
    """For each row of an entry where its bytes begin (the field of the row change), and its partition."""
    entry = entries[number]
    route = routes.routes[entry.name]
    at, count, image = entry.store, int64(0), shown(entry.event)
    while at < entry.store_end:
        field, start, end, _long = read_field(data, at)
        if field == ROW:
            places[count] = at
            if route.mode == FIXED:
                partitions[count] = route.partition
            else:
                partitions[count] = _partition(data, start, end, image, route, routes)
            count += 1
        at = end
