"""A SELECT's packets to Arrow on one core, beside what Python has for it, from the same server.

`result_set_decode`: packets that were received before, cut and brought to Arrow; rows a CPU second.
`result_set_read`: the same with the receiving, as a snapshot reads.
The peers run the same SELECT and receive it themselves: pymysql's unbuffered cursor, and where they are installed
mysqlclient and connectorx. The fastest is named.

    python -m tests.bench.bench_result_set [--rows 1000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pymysql.cursors import SSCursor

from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.reading import read_chunk, row_starts
from spark_jobs.snapshot.resultset.answers import Answer, widths
from spark_jobs.snapshot.resultset.columns import decode
from spark_jobs.snapshot.resultset.packets import Packets
from spark_jobs.snapshot.resultset.question import AS_STORED, question
from spark_jobs.snapshot.resultset.statement import executed
from spark_jobs.snapshot.source import Source, connect
from tests.bench.bench_service import OPTIONS, fill, report

COLUMNS = """(id BIGINT PRIMARY KEY, n INT, name VARCHAR(64), price DECIMAL(12,2), seen DATETIME(3), note TEXT)
             CHARACTER SET utf8mb4"""
VALUES = "n, n % 100003, CONCAT('name-', n), n / 100, '2024-05-06 07:08:09.123', REPEAT('x', 40)"
_PART = 1_000_000  # rows of one INSERT


def filled(mysql: MySqlServer, rows: int) -> TableSchema:
    """`bench.t` with so many rows."""
    fill(mysql, [f"CREATE TABLE bench.t {COLUMNS}"])
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for low in range(0, rows, _PART):
            here = min(_PART, rows - low)
            thousands = f"b.d < {-(-here // 1000)}"
            numbers = f"SELECT {low} + a.d + 1000 * b.d n FROM seed.d b, seed.d a WHERE {thousands} LIMIT {here}"
            cursor.execute(f"INSERT INTO bench.t SELECT {VALUES} FROM ({numbers}) s")
            connection.commit()
        cursor.execute("ANALYZE TABLE bench.t")
        found = definition(connection, "bench", "t")
    assert found is not None
    return found


def received(source: Source, schema: TableSchema) -> tuple[list[Answer], bytes]:
    """The columns, and the packets of the rows."""
    with connect(source) as connection:
        with connection.cursor() as cursor:
            cursor.execute(AS_STORED)
        with executed(connection, question(schema), 1 << 20) as (answers, packets):
            receive, stream = packets._receive, bytearray(packets.data[packets._at : packets._stop].tobytes())

            def kept(into: memoryview) -> int:
                count = receive(into)
                stream.extend(into[:count])
                return count

            packets._receive = kept
            wide, more = widths(schema, answers), True
            while more:
                _, more = packets.rows(wide, row_starts(len(wide)))
    return answers, bytes(stream)


def decoded(stream: bytes, answers: list[Answer], schema: TableSchema, size: int) -> int:
    left, at = memoryview(stream), 0

    def receive(into: memoryview) -> int:
        nonlocal at
        count = min(len(into), len(left) - at)
        into[:count] = left[at : at + count]
        at += count
        return count

    packets, wide = Packets(receive, size, sequence=stream[3]), widths(schema, answers)
    starts, rows, more = row_starts(len(wide)), 0, True
    while more:
        count, more = packets.rows(wide, starts)
        rows += decode(schema, packets.data, starts[:, :count], wide).num_rows
    return rows


def streamed(source: Source, schema: TableSchema) -> int:
    """The same with the receiving."""
    return sum(batch.num_rows for batch in read_chunk(source, schema, ""))


def by_pymysql(source: Source, schema: TableSchema) -> int:
    with connect(source) as connection, connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {', '.join(column.name for column in schema.columns)} FROM bench.t")
        return sum(1 for _ in cursor)


def by_mysqlclient(source: Source, schema: TableSchema) -> int:
    client: Any = import_module("MySQLdb")
    streaming = import_module("MySQLdb.cursors").SSCursor
    account = {"host": source.host, "port": source.port, "user": source.user, "passwd": source.password}
    cursor = client.connect(**account, cursorclass=streaming).cursor()
    cursor.execute(f"SELECT {', '.join(column.name for column in schema.columns)} FROM bench.t")
    return sum(1 for _ in cursor)


def by_connectorx(source: Source, _: TableSchema) -> int:
    client: Any = import_module("connectorx")
    address = f"mysql://{source.user}:{source.password}@{source.host}:{source.port}/bench"
    return int(client.read_sql(address, "SELECT * FROM t", return_type="arrow").num_rows)


PEERS = {"connectorx": by_connectorx, "mysqlclient": by_mysqlclient, "pymysql": by_pymysql}


def rate(rows: int, work: Callable[[], int], times: int) -> float:
    """Rows a CPU second of this process; the best of some runs."""
    best = 0.0
    for _ in range(times):
        began = time.process_time()
        assert work() == rows
        best = max(best, rows / (time.process_time() - began))
    return best


def peer(name: str, source: Source, schema: TableSchema, rows: int) -> float | None:
    """None where it is not installed."""
    try:
        return rate(rows, lambda: PEERS[name](source, schema), 2)
    except ImportError:
        return None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    rows = options.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            schema = filled(mysql, rows)
            source = Source(mysql.host, mysql.port, mysql.user, mysql.password)
            answers, stream = received(source, schema)
            size = Limits().batch_bytes
            ours = rate(rows, lambda: decoded(stream, answers, schema, size), 4)
            peers = {name: found for name in PEERS if (found := peer(name, source, schema, rows))}
            config: dict[str, Any] = {"rows": rows, "mb": round(len(stream) / 1e6)}
            config |= {name: round(found) for name, found in peers.items()}
            best = max(peers, key=lambda name: peers[name])
            report("result_set_decode", ours, "rows/s", config | {"limit": 1_000_000}, best, peers[best])
            ours = rate(rows, lambda: streamed(source, schema), 3)
            report("result_set_read", ours, "rows/s", config, best, peers[best])
        finally:
            mysql.stop()


if __name__ == "__main__":
    main()
