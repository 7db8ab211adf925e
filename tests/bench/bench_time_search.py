"""How long it takes to find the place of a time: in 40 files of 100 MB, and in four of 1 GB. Prints JSON.

Transactions of 64 KB in events of 8 KB, a second apart. The worst of three times: one near the end of a file, which
has all of its headers read. Wanted: under 1 s and under 3 s.

    python -m tests.bench.bench_time_search [--scale 0.05] [--files 4]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.time_search import find_by_time
from orchestration.stack.mysql.server import MySqlServer

BASE = 1_600_000_000
ROW, ROWS = 8_000, 8
SETUPS = {40: 100 << 20, 4: 1 << 30}  # files: bytes of each


def write(server: MySqlServer, files: int) -> list[int]:
    """Until there are so many files. The last second of each but the last."""
    ends: list[int] = []
    when = BASE
    insert = "INSERT INTO t VALUES " + ",".join([f"(REPEAT('x', {ROW}))"] * ROWS)
    with server.database() as database, server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET timestamp = {BASE - 1}")
        cursor.execute("CREATE TABLE t (b BLOB) ENGINE = BLACKHOLE")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute(f"PURGE BINARY LOGS TO '{server.position()[0]}'")
        known = server.position()[0]
        while len(ends) < files:
            for _ in range(32):
                when += 1
                cursor.execute(f"SET timestamp = {when}")
                cursor.execute(insert)
            if (name := server.position()[0]) != known:
                ends, known = [*ends, when - 40], name
    return ends


def measure(files: int, size: int) -> None:
    options = {"max_binlog_size": max(size, 1 << 20), "sync_binlog": 0, "binlog_cache_size": 1 << 20}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as directory:
        server = MySqlServer("8.0.31", Path(directory), **options).start()
        try:
            ends = write(server, files)
            settings = SourceSettings(server.host, server.port, server.user, server.password)
            find_by_time(settings, ends[0] * 1000)  # compiles
            seconds = []
            for at in (0, len(ends) // 2, len(ends) - 1):
                started = time.perf_counter()
                find_by_time(settings, ends[at] * 1000)
                seconds.append(time.perf_counter() - started)
        finally:
            server.stop()
    config = {"files": files, "megabytes": size >> 20}
    print(json.dumps({"name": "time_search", "value": round(max(seconds), 3), "unit": "s", "config": config}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0, help="of the files' sizes")
    parser.add_argument("--files", type=int, choices=SETUPS, help="one of the two alone")
    arguments = parser.parse_args()
    for files, size in SETUPS.items():
        if arguments.files in (None, files):
            measure(files, int(size * arguments.scale))


if __name__ == "__main__":
    main()
