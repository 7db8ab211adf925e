"""Damage to captured events: past the checksums, or for the framing to notice.

All chance comes from the `Random` that is given: that of Hypothesis, or one with a seed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

import zstandard

from cdc_core.binlog.events import HEADER, OPERATION, EventType
from tests.fixtures.captured import Captured
from tests.support.binlog_stream import packets

_GTIDS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIA_GTID)
_TELL = (EventType.TABLE_MAP, EventType.TRANSACTION_PAYLOAD, *range(166, 172))
_TYPES = [*EventType, 0, 1, 99, 255]
_CODES = (*range(20), *range(240, 256))  # of columns
_TELLING = bytes([0, 1, 2, 3, 7, 0x0F, 0x30, 0x7F, 0x80, 0xF6, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF])
_MOST = 1 << 24  # bytes of a payload
_ZSTD = zstandard.ZstdCompressor()

Change = Callable[[Random, bytes], bytes]


def groups(log: Captured) -> list[list[bytes]]:
    """The transactions and statements of the log without checksums. The first item is what precedes them."""
    found: list[list[bytes]] = [[]]
    for event in log.events:
        if event[4] in _GTIDS:
            found.append([])
        found[-1].append(event[:-4] if log.checksum else event)
    return found


def stream(events: list[bytes], *, checksum: bool, opening: bytes) -> bytes:
    """The events as a server would send them: lengths, positions and checksums are right, whatever is inside."""
    end, out = 4 + len(opening), [opening]
    for event in events:
        length = len(event) + 4 * checksum
        end += length
        header = event[:9] + length.to_bytes(4, "little") + end.to_bytes(4, "little") + event[17:HEADER]
        whole = header + event[HEADER:]
        out.append(whole + zlib.crc32(whole).to_bytes(4, "little") * checksum)
    return packets(out)


def chosen(rng: Random, log: Captured) -> list[bytes]:
    """The events of a transaction with rows, and perhaps those of the next."""
    _, *rest = groups(log)
    low = rng.choice([i for i, group in enumerate(rest) if any(map(_tells, group))])
    return [event for group in rest[low : low + rng.randint(1, 2)] for event in group]


def damaged(rng: Random, log: Captured) -> bytes:
    """A stream of some events of the log with one fault, which may or may not be detectable."""
    events = chosen(rng, log)
    if rng.random() < 0.1:
        whole = stream(events, checksum=log.checksum, opening=log.events[0])
        return _bytes(rng, whole, rng.randrange(len(whole)))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not events:
            break
        if rng.random() < 0.1:
            _reordered(rng, events)
        else:
            at = _target(rng, events)
            events[at] = wrong(rng, events[at])
            if rng.random() < 0.4:  # what is read beyond it is then beyond the data
                del events[at + 1 :]
    return stream(events, checksum=log.checksum, opening=log.events[0])


def wrong(rng: Random, event: bytes) -> bytes:
    """One damaged event. The length in its header is corrected later."""
    changes: list[Change] = [_anywhere] * 4 + [_type, _cut]
    if event[4] == EventType.TABLE_MAP:
        changes += [_column, _column, _metadata]
    elif event[4] == EventType.TRANSACTION_PAYLOAD:
        changes += [_inside] * 8
    elif OPERATION[event[4]]:
        changes += [_anywhere, _anywhere, _cut, _count]
    try:
        return rng.choice(changes)(rng, event)
    except (IndexError, ValueError, zstandard.ZstdError):  # it was damaged before
        return _anywhere(rng, event)


def _target(rng: Random, events: list[bytes]) -> int:
    """An index of an event, preferably with rows, and preferably of these types."""
    tables = [i for i, event in enumerate(events) if _tells(event)]
    rows = [i for i in tables if events[i][4] != EventType.TABLE_MAP]
    return rng.choice(rng.choice([rows, rows, rows, tables, range(len(events))]) or range(len(events)))


def _tells(event: bytes) -> bool:
    return event[4] in _TELL or OPERATION[event[4]] > 0


def _reordered(rng: Random, events: list[bytes]) -> None:
    at, other = rng.randrange(len(events)), rng.randrange(len(events))
    match rng.randrange(3):
        case 0:
            del events[at]
        case 1:
            events.insert(at, events[other])
        case _:
            events[at], events[other] = events[other], events[at]


def _anywhere(rng: Random, event: bytes) -> bytes:
    return _bytes(rng, event, rng.randrange(HEADER, len(event))) if len(event) > HEADER else event


def _bytes(rng: Random, data: bytes, at: int) -> bytes:
    """Bytes flipped, overwritten, inserted, removed, copied from elsewhere, or cut off."""
    size = rng.choice((1, 1, 1, 2, 3, 4, 8, 30))
    head, here, tail = data[:at], data[at : at + size], data[at + size :]
    match rng.randrange(7):
        case 0:
            return head + bytes([here[0] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return head + bytes(rng.choice(_TELLING) for _ in here) + tail
        case 2:
            return head + rng.randbytes(len(here)) + tail
        case 3:
            return head + rng.randbytes(size) + here + tail
        case 4:
            return head + tail
        case 5:
            low = rng.randrange(len(data))
            return head + data[low : low + size] + tail
        case _:
            return head


def _type(rng: Random, event: bytes) -> bytes:
    return event[:4] + bytes([rng.choice(_TYPES)]) + event[5:]


def _cut(rng: Random, event: bytes) -> bytes:
    return event[: rng.randint(HEADER, len(event))]


def columns_at(event: bytes) -> tuple[int, int]:
    """Where the column types of a TABLE_MAP begin, and how many there are."""
    at = HEADER + 8
    for _ in range(2):
        at += 2 + event[at]
    return at + 1, event[at]


def _put(event: bytes, at: int, value: int) -> bytes:
    return event[:at] + bytes([value & 0xFF]) + event[at + 1 :]


def _column(rng: Random, event: bytes) -> bytes:
    """Another type or other metadata for a column; or a column more or less."""
    at, count = columns_at(event)
    match rng.randrange(3):
        case 0:
            return _put(event, rng.randrange(at, at + count), rng.choice(_CODES))
        case 1:
            size = event[at + count]
            return _put(event, at + count + 1 + rng.randrange(size or 1), rng.choice(_TELLING))
        case _:
            return _put(event, at - 1, count + rng.choice((-1, 1)))


def _metadata(rng: Random, event: bytes) -> bytes:
    """An additional optional field, known or unknown."""
    size = rng.randrange(6)
    return event + bytes([rng.randrange(16), size]) + rng.randbytes(size)


def _count(rng: Random, event: bytes) -> bytes:
    """Another number of columns, or other columns, in a rows event."""
    at = HEADER + 8 + (int.from_bytes(event[27:29], "little") if event[4] >= EventType.WRITE_ROWS else 0)
    if at + 1 >= len(event):
        return event
    one_more = _put(event, at, event[at] + rng.choice((-1, 1)))
    return one_more if rng.random() < 0.5 else _put(event, at + 1, rng.randrange(256))


def _inside(rng: Random, event: bytes) -> bytes:
    """Damage to an event of a compressed transaction."""
    head, events = unpacked(event)
    at = _target(rng, events)
    inner = wrong(rng, events[at])
    events[at] = inner[:9] + len(inner).to_bytes(4, "little") + inner[13:]
    return packed(head, events)


def unpacked(event: bytes) -> tuple[bytes, list[bytes]]:
    """The header of a TRANSACTION_PAYLOAD and the events in it."""
    at = HEADER
    while event[at]:  # fields of a type, a length and a value; their type and length have one byte each
        at += 2 + event[at + 1]
    if zstandard.frame_content_size(event[at + 1 :]) > _MOST:  # it would be believed
        raise ValueError("damaged before")
    data, events = zstandard.ZstdDecompressor().decompress(event[at + 1 :], max_output_size=_MOST), []
    while data:
        size = int.from_bytes(data[9:13], "little")
        if size < HEADER:
            raise ValueError("damaged before")
        events.append(data[:size])
        data = data[size:]
    return event[:HEADER], events


def packed(header: bytes, events: list[bytes]) -> bytes:
    """A TRANSACTION_PAYLOAD of these events, with its fields: compression, compressed size, size."""
    data = b"".join(events)
    small = _ZSTD.compress(data)
    sizes = [b"\xfd" + number.to_bytes(3, "little") for number in (len(data), len(small))]
    return header + b"\x02\x01\x00" + b"\x03\x04" + sizes[0] + b"\x01\x04" + sizes[1] + b"\x00" + small
