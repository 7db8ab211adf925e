"""A history beside the MERGE of the same changes, both from one change log, by turns. Prints JSON.

`history`: the seconds of a history's commit over those of the merged table's, for rounds of changes to a table of 13
columns: a fifth inserts, three fifths updates, a fifth deletes.

    python -m tests.bench.bench_history [--scale 0.1] [--rounds 4]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.contract.claim import Claim
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import Column, TableSchema
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.changes import columns
from spark_jobs.following.history.historian import Historian
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows, place_of
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.record import EPOCHS
from spark_jobs.lake.state import DESTINATION, LOG, PRIMARY_KEY, TABLE, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.definition import DEFINITION, STATISTICS, statistics
from spark_jobs.session import Sessions
from tests.bench.bench_service import report

ROWS, CHANGES = 1_000_000, 1_000_000
SCHEMA = TableSchema(
    "shop",
    "t",
    (
        Column("id", 8, 0, nullable=False),
        *(Column(f"n{number}", 3, 0) for number in range(6)),
        *(Column(f"s{number}", 15, 80, charset=255) for number in range(6)),
    ),
    ("id",),
)


class Log:
    """A change log that grows by rounds; `there` are the keys that the table has."""

    def __init__(self, lake: Lake) -> None:
        self._rng, self._end, self.there = np.random.default_rng(1), 1 << 38, np.empty(0, np.int64)
        self._next, self._path, self._lake = 0, lake.log_path("shop", "t"), lake
        self._schema = pa.schema([*arrow_fields(SCHEMA), *columns.SYSTEM])
        properties = {
            DESTINATION: "bench", TABLE: SCHEMA.name, LOG: "true", PRIMARY_KEY: json.dumps(["id"]),
            STATISTICS: statistics(SCHEMA, self._schema),
            DEFINITION: json.dumps(SCHEMA.to_dict()), f"{EPOCHS}0": json.dumps({"moved": 0, "seamless": []}),
        }  # fmt: skip
        DeltaTable.create(self._path, self._schema, configuration=properties, raise_if_key_not_exists=False)

    @property
    def end(self) -> int:
        """The version up to which it has changes."""
        return self._end

    def skip(self, far: int) -> None:
        """As if so much had come."""
        self._end += far

    def grow(self, inserts: int, updates: int, deletes: int) -> None:
        """One append of so many changes, each of another key."""
        old = self._rng.choice(self.there, updates + deletes, replace=False) if len(self.there) else self.there
        new = np.arange(self._next, self._next + inserts)
        self._next += inserts
        self.there = np.concatenate([np.setdiff1d(self.there, old[updates:], assume_unique=True), new])
        ids = np.concatenate([new, np.repeat(old[:updates], 2), old[updates:]])
        ops = ["insert"] * inserts + ["update_before", "update_after"] * updates + ["delete"] * deletes
        size, low = len(ids), self._end
        self._end += 40 * size
        fixed = {
            "id": ids, columns.OP: ops, columns.EPOCH: np.zeros(size, np.int32),
            columns.VERSION: np.arange(low + 40, low + 40 * size + 1, 40), columns.NTH: np.arange(size),
            columns.TIME: pa.array(np.full(size, int(time.time() * 1e6)), pa.timestamp("us", "UTC")),
        }  # fmt: skip
        arrays = [pa.array(fixed[one.name]).cast(one.type) if one.name in fixed else self._any(one, size)
                  for one in self._schema]  # fmt: skip
        app = log_app_id("bench", 1, SCHEMA.name, 0)
        commit = CommitProperties(app_transactions=[Transaction(app, self._end)])
        write_deltalake(self._path, pa.table(arrays, self._schema), mode="append", commit_properties=commit)
        start, end = place_of(low), place_of(self._end)
        claim = Claim("bench", 1, low, start, end, (), 1, size, 1, (), 0, "", 0.0)
        Ledger(self._lake, "bench", 1).note(claim, {}, "run", time.time(), {SCHEMA.name: self._end})

    def _any(self, field: pa.Field, size: int) -> pa.Array:
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            return pa.array(self._rng.integers(0, 1 << 60, size).astype(str)).cast(field.type)
        return pa.array(self._rng.integers(0, 1 << 30, size)).cast(field.type)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    assert work()
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=4)
    given = options.parse_args()
    rows, each = int(ROWS * given.scale), int(CHANGES * given.scale / given.rounds)
    with tempfile.TemporaryDirectory(prefix="bench-history-") as directory:
        spark = SparkConnect(Path(directory) / "spark", free_port()).start()
        try:
            lake = Lake(Path(directory) / "lake")
            log = Log(lake)
            with Sessions(spark.remote) as sessions:
                merger = Merger(Follows(lake, "bench", 1), sessions, Fence(lake, sessions))
                historian = Historian(merger.follows, sessions, merger.fence)
                historian.begin(SCHEMA.name)
                seconds: dict[str, list[float]] = {"merge": [], "history": []}
                works = {"merge": merger.whole, "history": historian.whole}
                for number in range(given.rounds + 2):  # the rows, and one round that is not counted
                    log.grow(*((rows, 0, 0) if number == 0 else (each // 5, each * 3 // 5, each // 5)))
                    for name in list(works)[:: 1 if number % 2 else -1]:
                        seconds[name].append(timed(lambda name=name: works[name](SCHEMA.name)))  # type: ignore[misc]
                    historian.whole(SCHEMA.name)  # a comparison that is due
        finally:
            spark.kill()
    counted = {name: [round(one, 2) for one in found[2:]] for name, found in seconds.items()}
    ratio = sum(counted["history"]) / sum(counted["merge"])
    config = {"rows": rows, "changes": each, "rate": round(each / median(counted["history"])), **counted}
    report("history", ratio, "of the MERGE", config)


if __name__ == "__main__":
    main()
