"""A backlog of inserts mirrored into a second MySQL. Prints JSON.

`mirror`: rows a second from the first batch to the last one's commit, with the mirror as a process of its own. The
server's rate is beside: the same rows by `INSERT ... SELECT` within the target, a thousand in a statement.

    python -m tests.bench.bench_mirror [--scale 0.1]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from orchestration.stack.mysql.server import MySqlServer
from tests.bench.bench_merge import cpu
from tests.bench.bench_service import COLUMNS, OPTIONS, VALUES, fill, report, serving

ROWS = 500_000
PASSWORD = "bench-of-the-mirror"


def rows_of(mysql: MySqlServer) -> int:
    """Rows that are there, by the last one's number: to count them would take a core."""
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(id) + 1, 0) FROM bench.t")
        return int(cursor.fetchone()[0])


def own_rate(mysql: MySqlServer, rows: int) -> float:
    """Rows a second of the server's own inserts, in transactions as large as the mirror's."""
    mysql.execute(f"CREATE TABLE bench.own {COLUMNS}")
    began = time.perf_counter()
    for low in range(0, rows, 20_000):
        mysql.execute(f"INSERT INTO bench.own SELECT * FROM bench.t WHERE id >= {low} AND id < {low + 20_000}")
    return rows / (time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    given = options.parse_args()
    rows = int(ROWS * given.scale)
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as directory:
        folder = Path(directory)
        source = MySqlServer("8.0.31", folder / "source", **OPTIONS).start()
        target = MySqlServer("8.0.31", folder / "target", **OPTIONS).start()
        try:
            begin = fill(source, [f"CREATE TABLE bench.t {COLUMNS}", *map(_inserts, range(0, rows, 1000))])
            target.execute("CREATE DATABASE bench", f"CREATE TABLE bench.t {COLUMNS}")
            target.execute(f"CREATE USER m IDENTIFIED BY '{PASSWORD}'", "GRANT ALL ON *.* TO m")
            (folder / "rdb").mkdir()
            rule = "destination: bench\ndbMapping:\n  database: bench\n  table: t\n  mapAll: true\n"
            (folder / "rdb" / "t.yml").write_text(rule)
            with serving(source, begin, sluice__tcp__anyone="true") as service:
                service.until_warm()
                command = [
                    sys.executable, "-m", "orchestration.cli", "mirror", "bench", "--rules", str(folder / "rdb"),
                    "--target", f"mysql://m@127.0.0.1:{target.port}/bench", "--address", f"127.0.0.1:{service.tcp}",
                ]  # fmt: skip
                environment = {**os.environ, "SLUICE_MIRROR_PASSWORD": PASSWORD}
                with psutil.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as mirror:
                    assert mirror.stdout is not None
                    mirror.stdout.readline()
                    first, began = rows_of(target), time.perf_counter()
                    while (seen := rows_of(target)) < rows:
                        time.sleep(0.1)
                    seconds, used = time.perf_counter() - began, cpu(psutil.Process(mirror.pid))
                    mirror.terminate()
            with target.root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM bench.t")
                assert cursor.fetchone() == (rows,)
            rate = (seen - first) / seconds
            config = {"rows": rows, "limit": 50_000, "mirror_cpu_seconds": round(used, 1)}
            report("mirror", rate, "rows/s", config, "the target's own INSERT ... SELECT", own_rate(target, rows))
        finally:
            source.stop()
            target.stop()


def _inserts(low: int) -> str:
    """A thousand rows."""
    return (
        f"INSERT INTO bench.t SELECT id, {VALUES}, REPEAT('x', 100) FROM (SELECT {low} + d AS id, d AS n FROM seed.d) b"
    )


if __name__ == "__main__":
    main()
