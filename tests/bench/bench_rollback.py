"""Ten tables set back by a thousand batches. Prints JSON.

`rollback`: the seconds in which ten tables of a few rows are found as of a place 1,000 batches ago, and restored to
it. More rows cost no more in a local lake. The cursor's part, one write, is not in it. `by_spark` in the configuration
is the same where Spark writes the rows of each table, as in an object store.

    python -m tests.bench.bench_rollback [--batches 100]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import cast
from unittest import mock

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.as_of.as_of import TablesAsOf
from spark_jobs.past.asked import asked_position
from spark_jobs.session import Sessions
from spark_jobs.undo import restore
from spark_jobs.undo.restore import LakePlace, Restorer
from tests.bench.bench_service import report
from tests.support.lake_history import LakeHistory

BATCHES = 1_000
TABLES = [f"shop.t{number}" for number in range(10)]


def restored(lake: LakeHistory, sessions: Sessions, found: TablesAsOf, epoch: int) -> list[float]:
    """The tables are restored, in an epoch that the cursor has begun. Returns the seconds of each."""
    lake.epoch, lake.cursor, seconds = epoch, 0, list[float]()
    restorer, place = Restorer(lake.follows, sessions), LakePlace(epoch, asked_position(found.position))
    for chosen in found.tables.values():
        before = time.perf_counter()
        assert restorer.table(chosen, place).version is not None
        seconds.append(round(time.perf_counter() - before, 2))
    assert all(lake.current(name) == lake.rows_at(name, 0) for name in TABLES)
    return seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=BATCHES)
    batches = options.parse_args().batches
    with tempfile.TemporaryDirectory(prefix="bench-rollback-") as directory:
        lake = LakeHistory(Path(directory) / "lake", random.Random(1), TABLES)
        for _ in range(batches + 1):
            lake.commit(*TABLES)
            lake.batch_of(1)
            if len(lake.transactions) % 50 == 0:  # as every writer of Delta does now and then
                for name in TABLES:
                    lake.lake.open(lake.path(name)).create_checkpoint()
        began = time.perf_counter()
        found = Restorer(lake.follows, cast(Sessions, None)).plan("batch:1")
        planned = time.perf_counter() - began
        spark = SparkConnect(Path(directory) / "spark", free_port()).start()
        try:
            with Sessions(spark.remote) as sessions:
                seconds = restored(lake, sessions, found, 1)
                with mock.patch.object(restore, "_set_back", return_value=False):
                    by_spark = restored(lake, sessions, found, 2)
        finally:
            spark.stop()
    told = {"tables": len(TABLES), "batches": batches, "limit": 60, "planned": round(planned, 2), "each": seconds}
    by_spark_all = round(planned + sum(by_spark), 2)
    report("rollback", planned + sum(seconds), "s", told | {"by_spark": by_spark_all, "each_by_spark": by_spark})


if __name__ == "__main__":
    main()
