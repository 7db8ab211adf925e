"""The kernel that cuts MySQL packets into events: bytes of packets in, bytes of events and rows of their index out.

Knows packets and the common event header, nothing of what events mean. It returns a code and how far it came; `framing`
does the rest. Source: MySQL's protocol manual, "Replication Protocol"; `binlog.events` on the header.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.checksum import crc32
from cdc_core.binlog.events import ARTIFICIAL, CHECKSUM, HEADER, EventType
from cdc_core.compiled.kernel import BYTES, OUT_BYTES, PAIR, Bytes, int64, kernel, named, records
from cdc_core.compiled.memory import little, move

PACKET = 4  # bytes before a packet's payload: its length 3, its sequence number 1
FULL_PACKET = 0xFFFFFF  # a payload of this length goes on in the next packet
_ERROR, _END = 0xFF, 0xFE  # first byte of a packet with which the server ends the dump


class Cut(IntEnum):
    """Why the cut stopped, and what is wrong with an event."""

    MORE = 0  # the rest of a packet is still to come
    FULL = 1  # the block has no room for the next event
    CONTROL = 2  # an event that the framing itself reads
    LARGE = 3  # an event that is larger than a block, or spans packets
    SERVER = 4  # the server ends the dump
    SOUND = 8
    OUTSIDE = 9  # sound, but without a place in the journal
    BAD_LENGTH = 10
    BAD_CHECKSUM = 11
    BAD_POSITION = 12
    BAD_SEQUENCE = 13
    BAD_PACKET = 14


class Received(NamedTuple):
    """Packets in `data[at:stop]`; the first has this sequence number."""

    data: Bytes
    at: int
    stop: int
    sequence: int


class Filling(NamedTuple):
    """A block that is being filled: `fill` bytes of `data` and `rows` rows of `index` are used."""

    data: Bytes
    index: Any
    fill: int
    rows: int


class Journal(NamedTuple):
    """Where the next event starts. Events that end at or before `since` are checked but left out."""

    position: int
    since: int
    checksum: bool


class CutProgress(NamedTuple):
    """Why the cut stopped, and how far it came. But for MORE, `at` is the packet that the code is about."""

    code: int
    at: int
    sequence: int
    fill: int
    rows: int
    position: int


_RECEIVED = named(Received, OUT_BYTES, types.int64, types.int64, types.int64)
_FILLING = named(Filling, OUT_BYTES, records(INDEX, writable=True), types.int64, types.int64)
_JOURNAL = named(Journal, types.int64, types.int64, types.boolean)
_PROGRESS = types.UniTuple(types.int64, len(CutProgress._fields))  # type: ignore[no-untyped-call]


@kernel(types.boolean(types.int64))
def outside(kind: int) -> bool:
    """Whether a server makes events of this type up for the dump, so that they have no place in the journal."""
    return kind in (EventType.PREVIOUS_GTIDS, EventType.MARIA_GTID_LIST, EventType.MARIA_START_ENCRYPTION)


@kernel(types.boolean(types.int64))
def control(kind: int) -> bool:
    """Whether the framing itself reads events of this type."""
    return kind in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.HEARTBEAT, EventType.HEARTBEAT_V2)


@kernel(PAIR(BYTES, types.int64, types.int64, types.int64, types.boolean))
def examine(data: Any, start: int, length: int, position: int, checksum: bool) -> tuple[int, int]:
    """A verdict on the event at `start`, and the journal's offset after it; `position` is the offset before it.

    The header's end position has 32 bits: it must agree with ours in those. OUTSIDE moves no position.
    """
    if length < HEADER + (CHECKSUM if checksum else 0) or little(data, start + 9, 4) != length:
        return Cut.BAD_LENGTH, position
    if checksum and crc32(data, start, start + length - CHECKSUM) != little(data, start + length - CHECKSUM, 4):
        return Cut.BAD_CHECKSUM, position
    log_pos, end = little(data, start + 13, 4), position + length
    artificial = data[start + 17] & ARTIFICIAL != 0
    if end & 0xFFFFFFFF == log_pos and not artificial:
        return Cut.SOUND, end
    if log_pos == 0 or artificial:
        return Cut.OUTSIDE, position
    return Cut.BAD_POSITION, position


@kernel(types.void(records(INDEX, writable=True), types.int64, BYTES, types.int64, types.int64, PAIR))
def describe(index: Any, row: int, data: Any, start: int, end: int, place: tuple[int, int]) -> None:
    """Writes the index row of the event at `start`, which will have this (offset, length) in its block."""
    entry = index[row]
    entry.end = end
    entry.offset, entry.length = place
    entry.timestamp, entry.type, entry.flags = little(data, start, 4), data[start + 4], little(data, start + 17, 2)
    entry.rows, entry.schema, entry.row_base, entry.kind = 0, -1, 0, 0


@kernel(_PROGRESS(_RECEIVED, _FILLING, _JOURNAL))
def cut(received: Received, block: Filling, journal: Journal) -> tuple[int, int, int, int, int, int]:
    """Cuts the received packets into the block, as far as they go. Returns the fields of CutProgress."""
    source, at, stop, sequence = received
    into, index, fill, rows = block
    position, since, checksum = journal
    code = int64(Cut.MORE)
    while stop - at > PACKET:
        size = int64(source[at]) | int64(source[at + 1]) << 8 | int64(source[at + 2]) << 16
        first = source[at + PACKET]
        if source[at + 3] != sequence:
            code = Cut.BAD_SEQUENCE
            break
        if size > 0 and (first == _ERROR or (first == _END and size < 9)):
            code = Cut.SERVER if stop - at >= PACKET + size else Cut.MORE
            if PACKET + size > len(source):  # it would never be all there
                code = Cut.BAD_PACKET
            break
        if size < 1 or first != 0:
            code = Cut.BAD_PACKET
            break
        if stop - at < PACKET + 1 + HEADER and size > HEADER:
            break
        length = size - 1
        if size == FULL_PACKET:
            code = Cut.LARGE
            break
        if length < HEADER or little(source, at + PACKET + 1 + 9, 4) != length:
            code = Cut.BAD_LENGTH
            break
        if length > len(into):
            code = Cut.LARGE
            break
        if stop - at < PACKET + size:
            break
        start = at + PACKET + 1
        kind = int64(source[start + 4])
        if control(kind):
            code = Cut.CONTROL
            break
        kept = length - CHECKSUM if checksum else length
        if rows == len(index) or fill + kept > len(into):
            code = Cut.FULL
            break
        verdict, end = examine(source, start, length, position, checksum)
        if verdict != Cut.SOUND and not (verdict == Cut.OUTSIDE and outside(kind)):
            code = verdict
            break
        if verdict == Cut.SOUND and end > since:
            move(into, fill, source, start, kept)
            describe(index, rows, source, start, end, (fill, kept))
            fill += kept
            rows += 1
        position = end
        at += PACKET + size
        sequence = (sequence + 1) & 0xFF
    return code, at, sequence, fill, rows, position
