"""The rows of an entry as cells, for kernels: places in the entry's bytes, read in one walk.

What hashes or prints rows reads these cells, and no bytes of the entry but their texts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import numbers
from cdc_core.canal.scan.entries import ROW, read_field
from cdc_core.compiled.kernel import Bytes, helper, int64, named, records

ENTRY_ROW = np.dtype(
    [
        ("field", "<i8"),  # where the row's field of the row change starts
        ("start", "<i8"),  # where its content starts
        ("end", "<i8"),
        ("first", "<i8"),  # the number of its first cell
        ("last", "<i8"),  # the number after its last cell
        ("partition", "<i4"),
    ]
)
CELL = np.dtype(
    [
        ("name", "<i8"),
        ("name_end", "<i8"),
        ("value", "<i8"),
        ("value_end", "<i8"),
        ("type", "<i8"),  # MySQL's
        ("type_end", "<i8"),
        ("index", "<i4"),
        ("java_type", "<i4"),
        ("image", "<i4"),  # BEFORE or AFTER
        ("key", "?"),
        ("updated", "?"),
        ("null", "?"),
    ]
)
BEFORE, AFTER = numbers(declared.RowData, "beforeColumns", "afterColumns")
_INDEX, _JAVA_TYPE, _NAME, _KEY = numbers(declared.Column, "index", "sqlType", "name", "isKey")
_UPDATED, _NULL, _VALUE, _TYPE = numbers(declared.Column, "updated", "isNull", "value", "mysqlType")


class EntryRows(NamedTuple):
    """Memory for the rows of one entry and their cells."""

    rows: Any
    cells: Any


ENTRY_ROWS = named(EntryRows, records(ENTRY_ROW, writable=True), records(CELL, writable=True))


@helper
def shown(event: int) -> int:
    """Returns which image of a row is its data."""
    return BEFORE if event == CanalEventType.DELETE else AFTER


@helper
def read_rows(data: Bytes, entry: Any, into: EntryRows) -> bool:
    """Reads an entry's rows and their cells; False when there is no room for so many cells. An update's cells before
    are `updated` where those after it are."""
    place, row, count = entry.store, int64(0), int64(0)
    while place < entry.store_end:
        field, start, end, _long = read_field(data, place)
        if field == ROW:
            found = into.rows[row]
            found.field, found.start, found.end, found.first = place, start, end, count
            count = read_cells(data, start, end, into.cells, count)
            if count < 0:
                return False
            found.last = count
            if entry.event == CanalEventType.UPDATE:
                _mark_changed(into.cells, found.first, count)
            row += 1
        place = end
    return True


@helper
def read_cells(data: Bytes, at: int, stop: int, cells: Any, count: int) -> int:
    """Reads a row's cells after `count` others. Returns how many there are then, -1 when there is no room."""
    while at < stop:
        field, start, end, _long = read_field(data, at)
        if field in (BEFORE, AFTER):
            if count == cells.size:
                return int64(-1)
            cell = cells[count]
            cell.image = field
            _read_cell(data, start, end, cell)
            count += 1
        at = end
    return count


@helper
def _read_cell(data: Bytes, at: int, stop: int, cell: Any) -> None:
    cell.index = cell.java_type = 0
    cell.name = cell.name_end = cell.value = cell.value_end = cell.type = cell.type_end = 0
    cell.key = cell.updated = cell.null = False
    while at < stop:
        field, start, end, _long = read_field(data, at)
        if field == _INDEX:
            cell.index = start
        elif field == _JAVA_TYPE:
            cell.java_type = start
        elif field == _NAME:
            cell.name, cell.name_end = start, end
        elif field == _KEY:
            cell.key = start != 0
        elif field == _UPDATED:
            cell.updated = start != 0
        elif field == _NULL:
            cell.null = start != 0
        elif field == _VALUE:
            cell.value, cell.value_end = start, end
        elif field == _TYPE:
            cell.type, cell.type_end = start, end
        at = end


@helper
def _mark_changed(cells: Any, first: int, last: int) -> None:
    """Marks a row's cells before its update that the update changed. Both images have their columns in one order."""
    after = first
    for k in range(first, last):
        if cells[k].image == BEFORE:
            cells[k].updated = False
            while after < last and (cells[after].image == BEFORE or cells[after].index < cells[k].index):
                after += 1
            if after < last and cells[after].index == cells[k].index:
                cells[k].updated = cells[after].updated
