"""How fast the framing is: bytes as they come from the socket, to blocks with verified checksums. Prints JSON."""

from __future__ import annotations

import json
import time

from cdc_core.source.framing import Framer
from tests.binlog_stream import opening, packets, transactions


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
