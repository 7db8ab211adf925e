"""How fast the framing is: bytes as they come from the socket, to blocks with verified checksums. Prints JSON."""

from __future__ import annotations

import json
import time
import zlib

from cdc_core.source.framing import Framer

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


def run(stream: bytes, chunk: int = 1 << 18) -> tuple[float, int]:
    """CPU seconds and events of one pass over the stream, in chunks as a socket gives them."""
    framer, view, at, events = Framer("mysql-bin.000001", 4, checksum=True), memoryview(stream), 0, 0
    started = time.process_time()
    while at < len(view):
        space = framer.space()
        count = min(len(space), len(view) - at, chunk)
        space[:count] = view[at : at + count]
        framer.received(count)
        at += count
        events += sum(len(block.index) for block in framer.blocks(flush=False))
    events += sum(len(block.index) for block in framer.blocks())
    return time.process_time() - started, events


def main(repeat: int = 3) -> None:
    big = packets(opening() + transactions(200, 8000, rows=100))
    small = packets(opening() + transactions(100_000, 60))
    run(small[: 1 << 16])
    seconds, events = min(run(big) for _ in range(repeat))
    print(
        json.dumps({"name": "framing_8k", "value": round(len(big) / seconds / 1e6), "unit": "MB/s", "events": events})
    )
    seconds, events = min(run(small) for _ in range(repeat))
    rate = round(events / 5 / seconds)
    print(json.dumps({"name": "framing_small", "value": rate, "unit": "transactions/s", "events": events}))


if __name__ == "__main__":
    main()
