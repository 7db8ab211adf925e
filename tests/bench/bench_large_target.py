"""The same changes into a small and into a large table, both in the order of their key. Prints JSON.

`merge_large_target`: the seconds of a merge of 10,000 changes into 10,000,000 rows over those into 1,000,000. The
changes are of one range of keys, as those of a table that grows are; `scattered` in the configuration is the same for
changes all over the table. Merges are those of a change log (`apply: land_first`), by turns.

    python -m tests.bench.bench_large_target [--scale 0.1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from tests.bench import bench_history
from tests.bench.bench_history import SCHEMA, Log, timed
from tests.bench.bench_service import report

SMALL, LARGE, CHANGES, FILE = 1_000_000, 10_000_000, 10_000, 500_000


class Table:
    """A merged table with so many rows in the order of its key, and its log."""

    def __init__(self, folder: Path, sessions: Sessions, rows: int) -> None:
        self.lake, self.rows = Lake(folder), rows
        self.log = Log(self.lake)
        self.merger = Merger(Follows(self.lake, "bench", 1), sessions, Fence(self.lake, sessions))
        self.log.grow(1000, 0, 0)
        self.merger.whole(SCHEMA.name)
        self._fill()
        self._rng = np.random.default_rng(2)

    def _fill(self) -> None:
        """Rows after the first thousand, file by file, as a snapshot puts them there."""
        path = self.lake.path("shop", "t")
        schema = pa.schema(DeltaTable(path).schema().to_arrow())
        same = pa.array(np.arange(FILE) % 1000)
        others = {field.name: same.cast(pa.string()).cast(field.type) for field in schema if field.name != "id"}
        for low in range(1000, self.rows, FILE):
            ids = pa.array(np.arange(low, min(low + FILE, self.rows)))
            columns = [others[field.name][: len(ids)] if field.name != "id" else ids for field in schema]
            write_deltalake(path, pa.table(columns, schema), mode="append")

    def merge(self, changes: int, *, scattered: bool) -> float:
        """Seconds of the merge of so many updates."""
        if scattered:
            there = np.unique(self._rng.integers(0, self.rows, changes))
        else:
            low = int(self._rng.integers(0, self.rows - changes))
            there = np.arange(low, low + changes)
        self.log.there = there
        self.log.grow(0, len(there), 0)
        return timed(lambda: self.merger.whole(SCHEMA.name))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    assert bench_history.SCHEMA is SCHEMA
    took: dict[tuple[int, bool], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-target-") as directory:
        spark = SparkConnect(Path(directory) / "spark", free_port(), driver_memory="3g").start()
        try:
            with Sessions(spark.remote) as sessions:
                sizes = [int(size * given.scale) for size in (SMALL, LARGE)]
                began = time.monotonic()
                tables = {size: Table(Path(directory) / f"lake-{size}", sessions, size) for size in sizes}
                filled = time.monotonic() - began
                for number in range(given.rounds + 1):
                    for scattered in (False, True):
                        for size, table in tables.items():
                            seconds = table.merge(int(CHANGES * given.scale), scattered=scattered)
                            if number:
                                took.setdefault((size, scattered), []).append(seconds)
        finally:
            spark.stop()
    small, large = sizes
    near, far = (median(took[large, way]) / median(took[small, way]) for way in (False, True))
    told = {f"{size}{' scattered' if way else ''}": [round(s, 2) for s in took[size, way]] for size, way in took}
    config = {"rows": large, "of": small, "changes": int(CHANGES * given.scale), "scattered": round(far, 2)}
    report("merge_large_target", near, "times", config | {"limit": 3, "seconds": told, "filled_in": round(filled)})


if __name__ == "__main__":
    main()
