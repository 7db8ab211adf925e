"""How fast the framing is: bytes as they come from the socket, to blocks with verified checksums. Prints JSON."""

from __future__ import annotations

import json
import socket
import threading
import time

from cdc_core.source.framing import Framer
from tests.support.binlog_stream import opening, packets, transactions


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


def run_socket(stream: bytes) -> float:
    """CPU seconds of the reading thread, from a socket of this machine to the last block."""
    here, there = socket.socketpair()
    framer, left = Framer("mysql-bin.000001", 4, checksum=True), len(stream)
    sender = threading.Thread(target=there.sendall, args=(stream,))
    started = time.thread_time()
    sender.start()
    while left:
        count = here.recv_into(framer.space())
        framer.received(count)
        left -= count
        for _ in framer.blocks(flush=not left):
            pass
    seconds = time.thread_time() - started
    sender.join()
    here.close()
    there.close()
    return seconds


def main(repeat: int = 3) -> None:
    big = packets(opening() + transactions(200, 8000, rows=100))
    small = packets(opening() + transactions(100_000, 60))
    run(small[: 1 << 16])
    seconds, events = min(run(big) for _ in range(repeat))
    print(
        json.dumps({"name": "framing_8k", "value": round(len(big) / seconds / 1e6), "unit": "MB/s", "events": events})
    )
    seconds = min(run_socket(big) for _ in range(repeat))
    print(json.dumps({"name": "framing_8k_socket", "value": round(len(big) / seconds / 1e6), "unit": "MB/s"}))
    seconds, events = min(run(small) for _ in range(repeat))
    rate = round(events / 5 / seconds)
    print(json.dumps({"name": "framing_small", "value": rate, "unit": "transactions/s", "events": events}))


if __name__ == "__main__":
    main()
