"""Two hundred runs on one Spark server: what each leaves behind there. Prints JSON.

A run is what a run of Dagster does: sessions of its own, which claim, pull the rows of some tables, merge and end.
`runs_processes` and `runs_memory`: processes below Spark's, and memory of all of them in MB, after the last run, beside
those after a tenth of the runs.

    python -m tests.bench.bench_runs [--runs 200] [--tables 4]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil

from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.session import Sessions
from tests.bench.bench_merge import Ways, arena
from tests.bench.bench_service import OPTIONS, report


def below(process: psutil.Process) -> tuple[int, float]:
    """Processes below Spark's, and MB of all of them together: what they share counts once."""
    children = process.children(recursive=True)
    memory = 0.0
    for one in [process, *children]:
        try:
            memory += one.memory_full_info().pss / 1e6
        except psutil.Error:
            continue
    return len(children), memory


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--tables", type=int, default=4, help="as many as are merged side by side, or more")
    given = options.parse_args()
    after: dict[int, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-runs-") as scratch:
        mysql = MySqlServer("8.0.31", Path(scratch) / "mysql", **OPTIONS).start()
        spark = SparkConnect(Path(scratch) / "spark", free_port(), driver_memory="2g").start()
        try:
            with arena(mysql, spark, Path(scratch) / "lake", 1000) as (ways, shop):
                began, rows = time.monotonic(), 20 * given.tables
                for number in range(1, given.runs + 1):
                    shop.change(10, 10, 0, given.tables)
                    with Sessions(spark.remote) as sessions:
                        run = Ways(ways.service, ways.connector, sessions, ways.spark, ways.root)
                        ways.service.until(lambda _: ways.connector.client_status().backlog_rows >= rows, 60)
                        run.ours(1_000_000)
                    if number % (given.runs // 10) == 0:
                        after[number] = below(ways.spark)
                        print(number, *after[number], round(time.monotonic() - began), file=sys.stderr, flush=True)
                seconds = time.monotonic() - began
        finally:
            spark.stop()
            mysql.stop()
    (some, mb), *_, (all_of_them, all_mb) = after.values()
    last, each = max(after), [round(memory) for _, memory in after.values()]
    config = {"runs": last, "tables": given.tables, "seconds_a_run": round(seconds / last, 2), "mb_by_tenth": each}
    first = f"after {given.runs // 10} runs"
    report("runs_processes", all_of_them, "processes", config, first, some)
    report("runs_memory", all_mb, "MB", config, first, mb)


if __name__ == "__main__":
    main()
