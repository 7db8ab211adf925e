"""Where the parts of serialized entries stand, for kernels: one walk over the bytes, no message objects.

Source: EntryProtocol.proto of Canal 1.1.8; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import numbers
from cdc_core.compiled.kernel import BYTES, OUT_LONGS, Bytes, Longs, helper, int64, kernel, records

ENTRY = np.dtype(
    [
        ("start", "<i8"),  # of the Entry's own bytes
        ("end", "<i8"),
        ("header", "<i8"),  # its first field and what is after it
        ("header_end", "<i8"),
        ("store", "<i8"),  # the store value
        ("store_end", "<i8"),
        ("schema", "<i8"),
        ("schema_end", "<i8"),
        ("table", "<i8"),
        ("table_end", "<i8"),
        ("gtid", "<i8"),
        ("gtid_end", "<i8"),
        ("journal_number", "<i8"),
        ("offset", "<i8"),  # in the journal
        ("time", "<i8"),  # milliseconds since the epoch
        ("rows", "<i8"),
        ("type", "<i4"),  # EntryType
        ("ddl", "<i4"),
        ("event", "<i4"),  # EventType, as the store value has it
        ("name", "<i4"),  # number of the table's name in the piece
    ]
)
_HEADER, _ENTRY_TYPE, _STORE = numbers(declared.Entry, "header", "entryType", "storeValue")
_SCHEMA_NAME, _TABLE_NAME, _GTID = numbers(declared.Header, "schemaName", "tableName", "gtid")
_JOURNAL, _OFFSET, _TIME = numbers(declared.Header, "logfileName", "logfileOffset", "executeTime")
_EVENT_TYPE, _IS_DDL, ROW = numbers(declared.RowChange, "eventType", "isDdl", "rowDatas")
_LENGTH, _WIDE, _NARROW = 2, 1, 5  # wire types


@helper
def read_varint(data: Bytes, at: int) -> tuple[int, int]:
    """A number, and the place after it."""
    value, shift = int64(0), int64(0)
    while data[at] > 0x7F:
        value |= (int64(data[at]) & 0x7F) << shift
        shift += 7
        at += 1
    return value | int64(data[at]) << shift, at + 1


@helper
def read_field(data: Bytes, at: int) -> tuple[int, int, int, int]:
    """A field's number, its value or where the value starts, where it ends, and whether it has a length."""
    tag, at = read_varint(data, at)
    kind = tag & 7
    if kind == _LENGTH:
        size, at = read_varint(data, at)
        return tag >> 3, at, at + size, 1
    if kind in (_WIDE, _NARROW):
        return tag >> 3, at, at + (8 if kind == _WIDE else 4), 1
    value, at = read_varint(data, at)
    return tag >> 3, value, at, 0


def scan(data: Bytes) -> tuple[npt.NDArray[np.void], list[tuple[str, str]]]:
    """The entries of a piece of `messages` fields, and the databases and tables that `name` counts."""
    entries = np.zeros(_count(data), ENTRY)
    firsts = np.empty(len(entries), np.int64)
    names = _scan(data, entries, firsts)
    return entries, [_name(data, entries[first]) for first in firsts[:names].tolist()]


def text(data: Bytes, start: int, end: int) -> str:
    return data[start:end].tobytes().decode("utf-8", "surrogateescape")


def _name(data: Bytes, entry: Any) -> tuple[str, str]:
    return text(data, entry["schema"], entry["schema_end"]), text(data, entry["table"], entry["table_end"])


@helper
def _trailing_number(data: Bytes, at: int, end: int) -> int:
    """The digits after the last dot."""
    value = int64(0)
    for k in range(at, end):
        value = int64(0) if data[k] == 0x2E else value * 10 + int64(data[k]) - 48
    return value


@helper
def _same(data: Bytes, start: int, end: int, other: int, other_end: int) -> bool:
    if end - start != other_end - other:
        return False
    same = True
    for k in range(end - start):
        same &= data[start + k] == data[other + k]
    return same


@helper
def _header(data: Bytes, at: int, stop: int, entry: Any) -> None:
    while at < stop:
        number, value, end, _long = read_field(data, at)
        if number == _SCHEMA_NAME:
            entry.schema, entry.schema_end = value, end
        elif number == _TABLE_NAME:
            entry.table, entry.table_end = value, end
        elif number == _JOURNAL:
            entry.journal_number = _trailing_number(data, value, end)
        elif number == _GTID:
            entry.gtid, entry.gtid_end = value, end
        elif number == _OFFSET:
            entry.offset = value
        elif number == _TIME:
            entry.time = value
        at = end


@helper
def _change(data: Bytes, at: int, stop: int, entry: Any) -> None:
    while at < stop:
        number, value, end, long = read_field(data, at)
        if number == _EVENT_TYPE and not long:
            entry.event = value
        elif number == _IS_DDL and not long:
            entry.ddl = value
        elif number == ROW:
            entry.rows += 1
        at = end


@kernel(types.int64(BYTES))
def _count(data: Bytes) -> int:
    count, at = int64(0), int64(0)
    while at < len(data):
        size, at = read_varint(data, at + 1)
        at += size
        count += 1
    return count


@kernel(types.int64(BYTES, records(ENTRY, writable=True), OUT_LONGS))
def _scan(data: Bytes, entries: Any, firsts: Longs) -> int:
    """Fills the entries; `firsts`: the first entry of each name. Returns how many names there are."""
    at, names = int64(0), int64(0)
    for i in range(entries.size):
        entry = entries[i]
        size, at = read_varint(data, at + 1)
        entry.start, entry.end = at, at + size
        while at < entry.end:
            number, value, end, _long = read_field(data, at)
            if number == _HEADER:
                entry.header, entry.header_end = at, end
                _header(data, value, end, entry)
            elif number == _ENTRY_TYPE:
                entry.type = value
            elif number == _STORE:
                entry.store, entry.store_end = value, end
                _change(data, value, end, entry)
            at = end
        entry.name = names
        for k in range(names - 1, -1, -1):
            other = entries[firsts[k]]
            if _same(data, entry.schema, entry.schema_end, other.schema, other.schema_end) and _same(
                data, entry.table, entry.table_end, other.table, other.table_end
            ):
                entry.name = k
                break
        if entry.name == names:
            firsts[names] = i
            names += 1
    return names
