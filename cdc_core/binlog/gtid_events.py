"""The GTIDs in the bytes of events: MySQL's events with and without tags (MySQL 8.3 and later), and MariaDB's.

A kernel gathers them, without an object for each. Source: MySQL source documentation, "Gtid_event" and "Message
serialization library"; MariaDB knowledge base, "GTID_EVENT".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.damage import damaged
from cdc_core.binlog.events import HEADER, EventType
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_LONGS, PAIR, Bytes, Longs, int64, kernel
from cdc_core.compiled.memory import little
from cdc_core.errors import DecodeError
from cdc_core.gtid import Gtid, GtidPosition, Gtids, GtidSet
from cdc_core.gtid.intervals import Intervals

_MYSQL = (EventType.GTID, EventType.GTID_TAGGED)
_UUID, _TAG = 16, 32
_SOURCE = _UUID + 1 + _TAG  # uuid, length of the tag, tag
_GTID_BODY, _MARIA_BODY = 25, 12  # bytes at least
_FIELD_SOURCE, _FIELD_NUMBER, _FIELD_TAG, _FIELD_LAST = 1, 2, 3, 7


def add_gtids(gtids: Gtids, part: BlockSlice) -> Gtids:
    """`gtids` and those of the transactions that begin in these events. Raises DecodeError for a damaged GTID event."""
    if isinstance(gtids, GtidPosition):
        rows = _rows(part, EventType.MARIA_GTID)
        return gtids | _mariadb(part, rows) if len(rows) else gtids
    rows = _rows(part, *_MYSQL)
    if not len(rows):
        return gtids
    sources, numbers = _mysql(part, rows)
    names, which = np.unique(sources.view(f"V{_SOURCE}")[:, 0], return_inverse=True)
    found = {_source(name.tobytes()): _intervals(np.unique(numbers[which == i])) for i, name in enumerate(names)}
    return gtids | GtidSet.of(found)


def last_gtid(part: BlockSlice) -> Gtid | GtidPosition | None:
    """The GTID of the last transaction that begins in these events. Raises DecodeError for a damaged GTID event."""
    rows = _rows(part, *_MYSQL, EventType.MARIA_GTID)[-1:]
    if not len(rows):
        return None
    if part.block.index["type"][rows[0]] == EventType.MARIA_GTID:
        return _mariadb(part, rows)
    sources, numbers = _mysql(part, rows)
    return Gtid(*_source(sources[0].tobytes()), int(numbers[0]))


def _rows(part: BlockSlice, *kinds: EventType) -> Longs:
    """The index rows of the events of these types."""
    return part.low + np.flatnonzero(np.isin(part.index["type"], kinds))


def _mariadb(part: BlockSlice, rows: Longs) -> GtidPosition:
    """The last GTID of each domain."""
    block, index = part.block, part.block.index[rows]
    short = np.flatnonzero(index["length"] < HEADER + _MARIA_BODY)
    if len(short):
        raise _unreadable(part, int(rows[short[0]]))
    at = index["offset"].astype(np.int64)[:, None]
    servers = block.data[at + np.arange(5, 9)].view("<u4")[:, 0]
    numbers = block.data[at + HEADER + np.arange(8)].view("<u8")[:, 0]
    domains = block.data[at + HEADER + np.arange(8, 12)].view("<u4")[:, 0]
    found, last = np.unique(domains[::-1], return_index=True)
    picked = [(int(domain), len(rows) - 1 - int(i)) for domain, i in zip(found, last, strict=True)]
    return GtidPosition(tuple((domain, int(servers[i]), int(numbers[i])) for domain, i in picked))


def _mysql(part: BlockSlice, rows: Longs) -> tuple[Bytes, Longs]:
    """Source and number of each GTID."""
    block, index = part.block, part.block.index[rows]
    sources, numbers = np.zeros((len(rows), _SOURCE), np.uint8), np.zeros(len(rows), np.int64)
    offsets, lengths = index["offset"].astype(np.int64), index["length"].astype(np.int64)
    bad = _read(block.data, offsets, lengths, index["type"].copy(), sources, numbers)
    if bad >= 0:
        raise _unreadable(part, int(rows[bad]))
    return sources, numbers


def _source(source: bytes) -> tuple[str, str]:
    """UUID and tag."""
    digits = source[:_UUID].hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return uuid, source[_UUID + 1 : _UUID + 1 + source[_UUID]].decode("ascii", "replace")


def _intervals(numbers: Longs) -> Intervals:
    """Sorted numbers as intervals, their ends exclusive."""
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    lows, highs = numbers[np.r_[0, breaks + 1]], numbers[np.r_[breaks, len(numbers) - 1]] + 1
    return tuple(zip(lows.tolist(), highs.tolist(), strict=True))


def _unreadable(part: BlockSlice, row: int) -> DecodeError:
    return damaged("a transaction's GTID event", "its fields cannot be read", part.block.place(row))


@kernel(PAIR(BYTES, types.int64, types.int64))
def _packed(data: Any, at: int, stop: int) -> tuple[int, int]:
    """A number and where it ends, or -1 beyond `stop`. The first byte has, from its lowest bit on, a one for each byte
    that follows, then a zero."""
    if at < 0 or at >= stop:
        return 0, -1
    first, more = int64(data[at]), 0
    while more < 8 and first >> more & 1:
        more += 1
    if at + more >= stop:
        return 0, -1
    shift = min(more + 1, 8)
    value = first >> shift
    for k in range(1, more + 1):
        value |= int64(data[at + k]) << (8 * k - shift)
    return value, at + more + 1


@kernel(types.int64(BYTES, types.int64, types.int64, OUT_BYTES))
def tagged(data: Any, at: int, stop: int, source: Any) -> int:
    """Reads the tagged GTID event with its body in `data[at:stop]`: fills `source` and returns the number, 0 when the
    event is damaged. Fields have a type each, in rising order; some are left out."""
    number = 0
    for _ in range(3):  # version, size, last field that a reader must know
        _, at = _packed(data, at, stop)
    while 0 <= at < stop:
        field, at = _packed(data, at, stop)
        if at < 0 or field > _FIELD_LAST:
            break
        if field == _FIELD_SOURCE:
            for k in range(_UUID):
                value, at = _packed(data, at, stop)
                source[k] = value & 0xFF
        elif field == _FIELD_TAG:
            size, at = _packed(data, at, stop)
            if at < 0 or size > _TAG or at + size > stop:
                return 0
            source[_UUID] = size
            source[_UUID + 1 : _UUID + 1 + size] = data[at : at + size]
            at += size
        else:
            value, at = _packed(data, at, stop)
            if field == _FIELD_NUMBER and at >= 0:
                number = value >> 1  # its lowest bit is the sign
    return number if at >= 0 else 0


@kernel(types.int64(BYTES, LONGS, LONGS, BYTES, types.uint8[:, ::1], OUT_LONGS))
def _read(data: Any, offsets: Any, lengths: Any, kinds: Any, sources: Any, numbers: Any) -> int:
    """Fills `sources` and `numbers`. Returns the event that is damaged, or -1."""
    for i in range(len(offsets)):
        at, stop = offsets[i] + HEADER, offsets[i] + lengths[i]
        if kinds[i] == EventType.GTID_TAGGED:
            numbers[i] = tagged(data, at, stop, sources[i])
        elif stop - at >= _GTID_BODY:
            sources[i, :_UUID] = data[at + 1 : at + 1 + _UUID]
            numbers[i] = little(data, at + 1 + _UUID, 8)
        if numbers[i] <= 0:
            return i
    return -1
