"""Changes that land: from a real MySQL by the service into change logs, without Spark. Prints JSON.

`append`: 1,000,000 inserted rows of ten tables, until they are in the logs, noted and acked.
`append_small`: the time of a claim with a few changes of ten tables, once their logs are there.

    python -m tests.bench.bench_landing [--scale 0.1] [--runs 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.session import Sessions
from tests.bench.bench_merge import PARALLEL, TABLES, Shop
from tests.bench.bench_service import report, serving
from tests.bench.drain import connect

NO_SPARK = "sc://127.0.0.1:1"
ROWS, BATCH, FEW = 1_000_000, 500_000, 10


def landed(lake: SparkLake, rows: int) -> float:
    """The seconds until so many rows are landed and acked."""
    began, done = time.perf_counter(), 0
    while done < rows:
        with lake.connector.claim(BATCH, owner="bench", timeout_seconds=60, lease_seconds=600) as claim:
            assert claim is not None, lake.connector.status()
            batch = lake.apply(claim, "bench", PARALLEL, [])
            assert not batch.refused
            assert not batch.applied
            lake.note(claim, batch, "bench")
            done += claim.rows
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    each = max(1000, int(ROWS * given.scale) // TABLES)
    large, small = list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="bench-landing-") as directory:
        root = Path(directory)
        mysql = MySqlServer("8.0.31", root / "mysql").start()
        try:
            source, begin = Shop(mysql, 1000), mysql.position()
            with (
                serving(mysql, begin, canal__instance__memory__buffer__size=1 << 20) as service,
                connect(service.http, service.flight) as connector,
                Sessions(NO_SPARK) as sessions,
            ):
                there = Lake(root / "lake")
                lake = SparkLake(connector, there, sessions, "", Fence(there, sessions), modes=Modes(Mode.APPEND))
                for _ in range(given.runs):
                    lake = replace(lake, fence=Fence(there, sessions))
                    source.change(each, 0, 0)
                    service.until(lambda _: connector.client_status().backlog_rows >= each * TABLES, 600)
                    large.append(landed(lake, each * TABLES))
                for _ in range(4 * given.runs):
                    source.change(FEW, 0, 0)
                    service.until(lambda _: connector.client_status().backlog_rows >= FEW * TABLES, 60)
                    small.append(landed(lake, FEW * TABLES))
        finally:
            mysql.stop()
    rates = [each * TABLES / seconds for seconds in large]
    config = {"rows": each * TABLES, "tables": TABLES, "runs": [round(rate) for rate in rates], "batch": BATCH}
    report("append", max(rates), "rows/s", config)
    report("append_small", median(small), "s", {"tables": TABLES, "rows": FEW * TABLES, "of": len(small)})


if __name__ == "__main__":
    main()
