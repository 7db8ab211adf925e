"""The partition of each row: Canal's hashes of keys, as its MQ producers compute them. Both forms of messages are made
of units, each for one partition.

Source: Canal's `MQMessageUtils.messagePartition`; Java SE, `String.hashCode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cdc_core.canal.scan.cells import EntryRows, read_rows, shown
from cdc_core.compiled.kernel import BYTES, LONGS, Bytes, helper, int64, named, records

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
UNIT = np.dtype(
    [
        ("start", "<i8"),  # in the output
        ("end", "<i8"),
        ("entry", "<i4"),
        ("partition", "<i4"),
        ("part", "<i4"),  # which unit of its entry, or of its entry and partition
        ("rows", "<i4"),
    ]
)


class Routes(NamedTuple):
    """A route for each name of the piece, and the columns that routes name, in lower case."""

    routes: Any
    names: Any
    ends: Any


ROUTES = named(Routes, records(ROUTE), BYTES, LONGS)


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
def _is_named(data: Bytes, cell: Any, route: Any, routes: Routes) -> bool:
    """Whether the route names a cell's column."""
    size = cell.name_end - cell.name
    for k in range(route.first, route.last):
        name = routes.ends[k]
        if routes.ends[k + 1] - name == size:
            same = True
            for i in range(size):
                byte = int64(data[cell.name + i])
                if 0x41 <= byte <= 0x5A:
                    byte += 0x20
                if byte != routes.names[name + i]:
                    same = False
                    break
            if same:
                return True
    return False


@helper
def _partition(data: Bytes, row: Any, cells: Any, image: int, route: Any, routes: Routes) -> int:
    """Returns the partition of a row."""
    if route.mode == FIXED:
        return int64(route.partition)
    found = np.int32(route.seed)
    for k in range(row.first, row.last):
        cell = cells[k]
        if cell.image == image and (cell.key if route.mode == BY_KEY else _is_named(data, cell, route, routes)):
            found ^= _hash(data, cell.value, cell.value_end)
    size = int64(abs(int64(found)))
    if size == 2147483648:  # Math.abs leaves it negative, and so is the remainder, of which Canal takes abs again
        return abs(int64(-((size) % int64(route.partitions))))
    return size % int64(route.partitions)


@helper
def read_routed(data: Bytes, entry: Any, routes: Routes, into: EntryRows) -> bool:
    """Reads an entry's rows with their partitions; False when there is no room for the cells."""
    if not read_rows(data, entry, into):
        return False
    route, image = routes.routes[entry.name], shown(entry.event)
    for number in range(entry.rows):
        into.rows[number].partition = _partition(data, into.rows[number], into.cells, image, route, routes)
    return True


@helper
def note(unit: Any, start: int, end: int, entry: int, partition: int, part: int, rows: int) -> None:
    """Fills a unit."""
    unit.start, unit.end, unit.entry, unit.partition, unit.part, unit.rows = start, end, entry, partition, part, rows
