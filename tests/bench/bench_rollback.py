"""Ten tables set back by a thousand batches. Prints JSON.

`rollback`: the seconds in which ten tables of a few rows are found as of a place 1,000 batches ago, and restored to
it. More rows cost no more in a local lake. The cursor's part, one write, is not in it.

    python -m tests.bench.bench_rollback [--batches 100]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.past.asked import asked_position
from spark_jobs.session import Sessions
from spark_jobs.undo.restore import LakePlace, Restorer
from tests.bench.bench_service import report
from tests.support.lake_history import LakeHistory

BATCHES = 1_000
TABLES = [f"shop.t{number}" for number in range(10)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=BATCHES)
    batches = options.parse_args().batches
    with tempfile.TemporaryDirectory(prefix="bench-rollback-") as directory:
        lake = LakeHistory(Path(directory) / "lake", random.Random(1), TABLES)
        for _ in range(batches + 1):
            lake.commit(*TABLES)
            lake.batch_of(1)
        spark = SparkConnect(Path(directory) / "spark", free_port()).start()
        try:
            with Sessions(spark.remote) as sessions:
                began = time.perf_counter()
                found = Restorer(lake.follows, sessions).plan("batch:1")
                planned = time.perf_counter() - began
                lake.epoch, lake.cursor = 1, 0
                restorer, place = Restorer(lake.follows, sessions), LakePlace(1, asked_position(found.position))
                seconds = []
                for chosen in found.tables.values():
                    before = time.perf_counter()
                    assert restorer.table(chosen, place).version is not None
                    seconds.append(round(time.perf_counter() - before, 2))
                took = time.perf_counter() - began
        finally:
            spark.stop()
        assert all(lake.current(name) == lake.rows_at(name, 0) for name in TABLES)
    told = {"tables": len(TABLES), "batches": batches, "limit": 60, "planned": round(planned, 2), "each": seconds}
    report("rollback", took, "s", told)


if __name__ == "__main__":
    main()
