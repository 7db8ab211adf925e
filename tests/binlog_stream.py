"""Streams of a dump made by hand: events with checksums, packed as a server packs them."""

from __future__ import annotations

import zlib

ROTATE, GTID, QUERY, TABLE_MAP, ROWS, XID, FORMAT = 4, 33, 2, 19, 30, 16, 15


def event(kind: int, body: bytes, position: int, *, flags: int = 0, timestamp: int = 1700000000) -> bytes:
    """An event with its checksum; `position` is the offset before it, -1 for one outside the journal."""
    length = 19 + len(body) + 4
    end = position + length if position >= 0 else 0
    numbers = (timestamp, 4), (kind, 1), (1, 4), (length, 4), (end & 0xFFFFFFFF, 4), (flags, 2)
    whole = b"".join(value.to_bytes(width, "little") for value, width in numbers) + body
    return whole + zlib.crc32(whole).to_bytes(4, "little")


def packets(events: list[bytes], sequence: int = 1) -> bytes:
    """The events as a server sends them."""
    out = []
    for one in events:
        payload, size = b"\0" + one, 0xFFFFFF
        while size == 0xFFFFFF:
            part, payload = payload[:0xFFFFFF], payload[0xFFFFFF:]
            size = len(part)
            out.append(size.to_bytes(3, "little") + bytes([sequence]) + part)
            sequence = (sequence + 1) & 0xFF
    return b"".join(out)


def opening(name: str = "mysql-bin.000001") -> list[bytes]:
    """The made-up ROTATE and FORMAT_DESCRIPTION of a dump that starts at 4."""
    description = b"\4\0" + b"8.0.31".ljust(50, b"\0") + bytes(4) + b"\x13" + bytes(40) + b"\1"
    return [event(ROTATE, (4).to_bytes(8, "little") + name.encode(), -1, flags=0x20), event(FORMAT, description, -1)]


def transactions(count: int, row_bytes: int, rows: int = 1, start: int = 4) -> list[bytes]:
    """Transactions of GTID, BEGIN, TABLE_MAP, row events and XID."""
    shape = [(GTID, bytes(42)), (QUERY, bytes(30) + b"BEGIN"), (TABLE_MAP, bytes(45))]
    shape += [(ROWS, bytes(range(256)) * (row_bytes // 256) + bytes(row_bytes % 256))] * rows + [(XID, bytes(8))]
    events, position = [], start
    for _ in range(count):
        for kind, body in shape:
            events.append(event(kind, body, position))
            position += len(events[-1])
    return events
