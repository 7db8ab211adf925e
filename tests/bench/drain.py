"""A client that claims, reads every table over Flight and acks; as a process of its own, one that can be measured.

Prints a line when it begins, and one of JSON when all rows are behind; then waits for its input to end.

    python -m tests.bench.drain HTTP_PORT FLIGHT_PORT ROWS MODE
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from cdc_core.client.changes import FlightRows
from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim

AHEAD = {"batch": 40_000, "splits": 1, "outstanding": 2}  # both fit into the ring: one is read, the next one claimed


def connect(http: int, flight: int) -> Connector:
    return Connector(f"http://127.0.0.1:{http}", "bench", flight_url=f"grpc://127.0.0.1:{flight}")


def drain(
    connector: Connector,
    rows: int,
    batch: int = 100_000,
    mode: str = "net",
    splits: int = 2,
    acked: Callable[[int], object] = id,
    outstanding: int = 1,
) -> int:
    """Reads the splits of a table side by side, and claims ahead of what it acks. Returns the rows that came over
    Flight; `acked` gets the number of changed rows that are acked."""
    claimed = behind = got = 0
    under_way: deque[tuple[Claim, list[Future[int]]]] = deque()

    def read(ticket: bytes) -> int:
        return sum(part.num_rows for part in door.split(ticket))

    def begin(claim: Claim) -> list[Future[int]]:
        plans = [door.info(claim, table.name, mode=mode, splits=splits) for table in claim.tables]
        return [pool.submit(read, ticket) for plan in plans for ticket in plan.tickets]

    with connector, FlightRows(connector.flight_url) as door, ThreadPoolExecutor(splits) as pool:
        while behind < rows:
            if claimed < rows:
                claim = connector.get_without_ack(batch, owner="bench", timeout_seconds=30)
                assert claim is not None, connector.status()
                under_way.append((claim, begin(claim)))
                claimed += claim.rows
            if len(under_way) == outstanding or claimed >= rows:
                claim, reads = under_way.popleft()
                got += sum(part.result() for part in reads)
                connector.ack(claim)
                behind += claim.rows
                acked(behind)
    return got


def main(http: str, flight: str, rows: str, mode: str) -> None:
    connector = connect(int(http), int(flight))
    print("begin", flush=True)
    began = time.monotonic()
    drain(connector, int(rows), mode=mode, **AHEAD)
    print(json.dumps({"rows": int(rows), "seconds": time.monotonic() - began}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
