"""Streams of a dump written by hand: events with checksums, in the packets that a server sends."""

from __future__ import annotations

import zlib

from cdc_core.binlog.block import Block
from cdc_core.source.framing import Framer

ROTATE, GTID, QUERY, TABLE_MAP, ROWS, XID, FORMAT = 4, 33, 2, 19, 30, 16, 15


def event(kind: int, body: bytes, position: int, *, flags: int = 0, timestamp: int = 1700000000) -> bytes:
    """An event with its checksum. `position` is the offset before it, or -1 for an artificial event."""
    length = 19 + len(body) + 4
    end = position + length if position >= 0 else 0
    numbers = (timestamp, 4), (kind, 1), (1, 4), (length, 4), (end & 0xFFFFFFFF, 4), (flags, 2)
    whole = b"".join(value.to_bytes(width, "little") for value, width in numbers) + body
    return whole + zlib.crc32(whole).to_bytes(4, "little")


def packets(events: list[bytes], sequence: int = 1) -> bytes:
    """The events in the packets of a server."""
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
    """The artificial ROTATE and FORMAT_DESCRIPTION of a dump that starts at 4."""
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


def feed(framer: Framer, stream: bytes, sizes: list[int] | None = None) -> list[Block]:
    """All blocks that the framer makes of the stream, which arrives in chunks of these sizes, repeated."""
    blocks, at, turn = [], 0, 0
    while at < len(stream):
        space = framer.space()
        assert len(space) > 0
        count = min(len(space), len(stream) - at, sizes[turn % len(sizes)] if sizes else len(stream))
        space[:count] = stream[at : at + count]
        framer.received(count)
        at, turn = at + count, turn + 1
        blocks += framer.blocks(flush=False)
    return blocks + list(framer.blocks())


def whole(blocks: list[Block]) -> list[tuple[str, int, bytes]]:
    """Journal, end offset and bytes of each event in the blocks."""
    return [
        (block.journal_name, int(row["end"]), block.data[row["offset"] : row["offset"] + row["length"]].tobytes())
        for block in blocks
        for row in block.index
    ]
