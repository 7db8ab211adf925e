"""A client that claims, reads every table over Flight and acks; as a process of its own, one that can be measured.

Prints a line when it begins, and one of JSON when all rows are behind; then waits for its input to end.

    python -m tests.bench.drain HTTP_PORT FLIGHT_PORT ROWS MODE
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cdc_core.client.changes import flight_info, read_split
from cdc_core.client.connector import Connector


def connect(http: int, flight: int) -> Connector:
    return Connector(f"http://127.0.0.1:{http}", "bench", flight_url=f"grpc://127.0.0.1:{flight}")


def drain(
    connector: Connector,
    rows: int,
    batch: int = 100_000,
    mode: str = "net",
    splits: int = 2,
    acked: Callable[[int], object] = id,
) -> int:
    """Reads the splits of a table side by side. Returns the rows that came over Flight; `acked` is told how many
    changed rows are behind."""
    url, seen, got = connector.flight_url, 0, 0

    def read(ticket: bytes) -> int:
        return sum(part.num_rows for part in read_split(url, ticket))

    with connector, ThreadPoolExecutor(splits) as pool:
        while seen < rows:
            with connector.claim(batch, owner="bench", timeout_seconds=30) as claim:
                assert claim is not None, connector.status()
                for table in claim.tables:
                    plan = flight_info(url, claim, table.name, mode=mode, splits=splits)
                    got += sum(pool.map(read, plan.tickets))
            seen += claim.rows
            acked(seen)
    return got


def main(http: str, flight: str, rows: str, mode: str) -> None:
    connector = connect(int(http), int(flight))
    print("begin", flush=True)
    began = time.monotonic()
    drain(connector, int(rows), mode=mode)
    print(json.dumps({"rows": int(rows), "seconds": time.monotonic() - began}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
