"""How fast a real server's row events become Arrow, beside mysql-replication on a part of them. Prints JSON.

`decode_rows`: annotate, walk, net changes and columns of one table, in CPU seconds of one thread.
`small_transactions`: annotating transactions of one row, each with its TABLE_MAP.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from cdc_core.binlog.annotate import Annotator
from cdc_core.binlog.net import plan_net, read
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.block import Block, BlockSlice
from orchestration.stack.mysql import MySqlServer
from tests.binlog_files import Log, capture, image, table_map_body

ROWS, PER_STATEMENT, PEER_ROWS = 400_000, 2000, 20_000
TABLE = """CREATE TABLE bench.t (id BIGINT PRIMARY KEY, n INT, name VARCHAR(64), price DECIMAL(12,2), seen DATETIME(3),
           note TEXT) CHARACTER SET utf8mb4"""
INSERT = "INSERT INTO bench.t VALUES " + ", ".join(
    f"(@at + {n}, {n}, 'name-{n}', {n}.25, '2024-05-06 07:08:09.{n % 1000:03d}', REPEAT('{n % 10}', 100))"
    for n in range(PER_STATEMENT)
)


def fill(server: MySqlServer) -> Block:
    """The whole binlog of a table of ROWS rows."""
    statements = ["CREATE DATABASE IF NOT EXISTS bench", "DROP TABLE IF EXISTS bench.t", TABLE]
    for at in range(0, ROWS, PER_STATEMENT):
        statements += [f"SET @at = {at}", INSERT]
    return capture(server, *statements)


def annotate(block: Block) -> SchemaRegistry:
    registry = SchemaRegistry()
    annotator = Annotator(registry, lambda schema: schema, lambda *_: True)
    annotator.annotate(block.journal_name, block.data, block.index)
    return registry


def decode(block: Block) -> int:
    """From events to Arrow: the number of rows."""
    slices = [BlockSlice(block, 0, len(block.index))]
    plan = plan_net(slices, annotate(block), "bench.t")
    return sum(batch.num_rows for batch in read(plan))


def peer(server: MySqlServer, journal: str) -> float:
    """Rows a CPU second of mysql-replication's reader."""
    stream = BinLogStreamReader(
        connection_settings={"host": server.host, "port": server.port, "user": server.user, "passwd": server.password},
        server_id=9_001, log_file=journal, log_pos=4, resume_stream=True, only_events=[WriteRowsEvent], blocking=False,
    )  # fmt: skip
    rows, started = 0, time.process_time()
    for event in stream:
        rows += len(event.rows)
        if rows >= PEER_ROWS:
            break
    seconds = time.process_time() - started
    stream.close()
    return rows / seconds


def small_transactions(count: int = 200_000) -> Block:
    columns = [("id", 8, b""), ("v", 15, b"\x14\x00")]
    body, log = table_map_body("t", columns, [0]), Log()
    for number in range(count):
        log.add(33, bytes(42))
        log.query("BEGIN")
        log.table_map(7, body)
        log.rows(30, 7, 2, image(columns, (number, "value")))
        log.add(16, bytes(8))
    return log.block()


def best(work: Callable[[], Any], times: int = 4) -> float:
    """The least CPU seconds of a few runs; the first, which loads kernels, is not counted."""
    seconds = []
    for _ in range(times + 1):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds[1:])


def report(
    name: str, value: float, unit: str, config: str, peer_name: str = "", peer_value: float | None = None
) -> None:
    ratio = value / peer_value if peer_value else None
    line = {"name": name, "value": round(value), "unit": unit, "peer": peer_name or None}
    print(json.dumps({**line, "peer_value": peer_value and round(peer_value), "ratio": ratio, "config": config}))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = MySqlServer("8.0.31", Path(directory)).start()
        try:
            block = fill(server)
            assert decode(block) == ROWS
            rate = ROWS / best(lambda: decode(block))
            config = f"{ROWS} inserted rows, (bigint key, int, varchar, decimal, datetime(3), text of 100), one thread"
            report("decode_rows", rate, "rows/s", config, "mysql-replication", peer(server, block.journal_name))
        finally:
            server.stop()
    count = 200_000
    block = small_transactions(count)
    report("small_transactions", count / best(lambda: annotate(block)), "transactions/s", "annotate, one row each")


if __name__ == "__main__":
    main()
