"""The compiled cut: MySQL packets in, bytes of events and rows of their index out.

Knows packets and the common event header, nothing of what events mean. It never raises and never allocates: it returns
a code and how far it came, and `framing` does the rest. Source: MySQL's protocol manual, "Replication Protocol".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from cdc_core.moving import move
from cdc_core.source.checksum import crc32

HEADER = 19  # bytes of an event's common header
CHECKSUM = 4
PACKET = 4  # length (3 bytes) and sequence of a packet
FULL_PACKET = 0xFFFFFF  # a payload of this length goes on in the next packet
MAX_EVENT = (1 << 30) + (1 << 20)  # servers send at most 1 GiB and a little

ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, HEARTBEAT_V2 = 4, 15, 27, 41
ARTIFICIAL = 0x20  # flag of events that are in no journal

# what a cut ended with
MORE, FULL, CONTROL, LARGE, SERVER = 0, 1, 2, 3, 4
# verdicts on one event
SOUND, OUTSIDE, BAD_LENGTH, BAD_CHECKSUM, BAD_POSITION, BAD_SEQUENCE, BAD_PACKET = 0, 9, 10, 11, 12, 13, 14


@njit(nogil=True, cache=True)
def u32(data: npt.NDArray[np.uint8], at: int) -> int:
    low = np.int64(data[at]) | np.int64(data[at + 1]) << 8
    return int(low | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24)


@njit(nogil=True, cache=True)
def outside(kind: int) -> bool:
    """Types that a server makes up for us, so that they stand outside the journal: PREVIOUS_GTIDS and MariaDB's
    GTID_LIST and START_ENCRYPTION."""
    return kind in (35, 163, 164)


@njit(nogil=True, cache=True)
def examine(data: npt.NDArray[np.uint8], start: int, length: int, position: int, checksum: bool) -> tuple[int, int]:
    """A verdict on the event at `start`, and the journal's offset after it. `position` is the offset before it.

    The header's position has 32 bits: it must agree with ours in those. OUTSIDE is an event that moves nothing.
    """
    if length < HEADER + (CHECKSUM if checksum else 0) or u32(data, start + 9) != length:
        return BAD_LENGTH, position
    if checksum and crc32(data, start, start + length - CHECKSUM) != u32(data, start + length - CHECKSUM):
        return BAD_CHECKSUM, position
    log_pos, flags, end = u32(data, start + 13), data[start + 17], position + length
    artificial = flags & ARTIFICIAL != 0
    if end & 0xFFFFFFFF == log_pos and not artificial:
        return SOUND, end
    if log_pos == 0 or artificial:
        return OUTSIDE, position
    return BAD_POSITION, position


@njit(nogil=True, cache=True)
def describe(
    index: npt.NDArray[np.void], row: int, data: npt.NDArray[np.uint8], start: int, end: int, offset: int, length: int
) -> None:
    """Write the index row of the event at `start`, which will lie at `offset` of its block."""
    entry = index[row]
    entry["end"] = end
    entry["offset"] = offset
    entry["length"] = length
    entry["timestamp"] = u32(data, start)
    entry["rows"] = 0
    entry["schema"] = -1
    entry["row_base"] = 0
    entry["type"] = data[start + 4]
    entry["kind"] = 0
    entry["flags"] = np.uint16(data[start + 17]) | np.uint16(data[start + 18]) << 8


@njit(nogil=True, cache=True)
def cut(
    source: npt.NDArray[np.uint8],
    at: int,
    stop: int,
    sequence: int,
    block: npt.NDArray[np.uint8],
    fill: int,
    index: npt.NDArray[np.void],
    rows: int,
    position: int,
    since: int,
    checksum: bool,
) -> tuple[int, int, int, int, int, int]:
    """Cut the packets in `source[at:stop]` into `block` and `index`, from `fill` and `rows` on.

    Returns a code and the new `at`, `sequence`, `fill`, `rows`, `position`. At any code but MORE, `at` is the packet
    that it is about. Events that end at or before `since` are checked but left out.
    """
    code = MORE
    while stop - at > PACKET:
        size = int(np.int64(source[at]) | np.int64(source[at + 1]) << 8 | np.int64(source[at + 2]) << 16)
        first = source[at + PACKET]
        if source[at + 3] != sequence:
            code = BAD_SEQUENCE
            break
        if size > 0 and (first == 0xFF or (first == 0xFE and size < 9)):
            code = SERVER if stop - at >= PACKET + size else MORE
            if PACKET + size > len(source):  # it would never be all there
                code = BAD_PACKET
            break
        if size < 1 or first != 0:
            code = BAD_PACKET
            break
        if stop - at < PACKET + 1 + HEADER and size > HEADER:
            break
        length = size - 1
        if size == FULL_PACKET:
            code = LARGE
            break
        if length < HEADER or u32(source, at + PACKET + 1 + 9) != length:
            code = BAD_LENGTH
            break
        if length > len(block):
            code = LARGE
            break
        if stop - at < PACKET + size:
            break
        start = at + PACKET + 1
        kind = source[start + 4]
        if kind in (ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, HEARTBEAT_V2):
            code = CONTROL
            break
        kept = length - CHECKSUM if checksum else length
        if rows == len(index) or fill + kept > len(block):
            code = FULL
            break
        verdict, end = examine(source, start, length, position, checksum)
        if verdict != SOUND and not (verdict == OUTSIDE and outside(kind)):
            code = verdict
            break
        if verdict == SOUND and end > since:
            move(block, fill, source, start, kept)
            describe(index, rows, source, start, end, fill, kept)
            fill += kept
            rows += 1
        position = end
        at += PACKET + size
        sequence = (sequence + 1) & 0xFF
    return code, at, sequence, fill, rows, position
