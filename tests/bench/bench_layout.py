"""Layouts of a large table, each beside the table as it is without: the same changes, merged by turns. Prints JSON.

`change_data_feed`: the seconds of a MERGE into a table with a change data feed over those into a table without.
`cluster_by`: the seconds of a MERGE of one range of keys into a table that is clustered by another column over those
into a table in the order of its key. Its configuration has the same for a table that is clustered by its key, the
seconds of a read by the other column, and what it took to lay the rows out.

Merges are those of a change log (`apply: land_first`): updates, and a fifth deletes.

    python -m tests.bench.bench_layout [change_data_feed|cluster_by] [--scale 0.1] [--rounds 4]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows
from spark_jobs.lake.features import CHANGE_FEED
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import Layouts
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from spark_jobs.maintain.key_order import KeyOrder
from spark_jobs.maintain.slices import AS_SHIPPED, depth
from spark_jobs.session import Sessions
from spark_jobs.write.order import Engine
from tests.bench.bench_history import SCHEMA, Log, timed
from tests.bench.bench_merge import Took, cpu
from tests.bench.bench_service import report

ROWS, CHANGES, FILES, FILE_BYTES = 500_000, 10_000, 16, 4 << 20
OTHER = "n0"  # a column that reads choose rows by
SPREAD = 1000  # values of it


class Table:
    """A merged table of so many rows, in no order, and its log."""

    def __init__(self, folder: Path, sessions: Sessions, rows: int, layouts: Layouts) -> None:
        self.lake, self.sessions, self.rows = Lake(folder, layouts=layouts), sessions, rows
        self.path = self.lake.path("shop", "t")
        self.log = Log(self.lake)
        fence = Fence(self.lake, sessions)
        self.merger = Merger(Follows(self.lake, "bench", 1), sessions, fence, engine=Engine.SQL)
        self.log.grow(1000, 0, 0)
        self.merger.whole(SCHEMA.name)
        self._fill()
        self._rng = np.random.default_rng(2)

    def _fill(self) -> None:
        """By Spark, since delta-rs does not write all of these tables. The rows of each file are of all keys."""
        values = ["id"]
        for number, column in enumerate(SCHEMA.columns[1:]):
            hashed = f"xxhash64(id, {number})"
            value = (
                f"CAST({hashed} AS STRING)" if column.name.startswith("s") else f"CAST(pmod({hashed}, {SPREAD}) AS INT)"
            )
            values.append(f"{value} AS {column.name}")
        with self.sessions.take() as spark:
            rows = spark.range(1000, self.rows, 1, FILES).selectExpr(*values).repartition(FILES)
            rows.write.format("delta").mode("append").save(self.path)

    def lay_out(self) -> float:
        """Seconds of what maintenance does: puts the rows in the order of the key, or clusters them."""
        began = time.perf_counter()
        if self.lake.layout(SCHEMA.name).cluster_by:
            with self.sessions.take() as spark:
                spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(FILE_BYTES))
                spark.sql(f"OPTIMIZE delta.{quote(self.path)}").collect()
                spark.conf.unset("spark.databricks.delta.optimize.maxFileSize")
            return time.perf_counter() - began
        state = self.lake.state(self.path, "")
        assert state is not None
        limits = replace(AS_SHIPPED, ordered=1, least=1, small=1, file=FILE_BYTES)
        order = KeyOrder(self.lake, self.sessions, limits)
        for part in order.plan(self.path, state, order.files(self.path, state)).slices:
            assert order.rewrite(self.path, state, part)
        seconds = time.perf_counter() - began
        assert depth(order.files(self.path, state)) < 2
        return seconds

    def merge(self, changes: int, *, near: bool) -> float:
        """Seconds of the merge of so many changes, of one range of keys if they are `near` each other."""
        if near:
            low = int(self._rng.integers(0, self.rows - changes))
            self.log.there = np.arange(low, low + changes)
        else:
            self.log.there = self._rng.choice(self.rows, changes, replace=False)
        self.log.grow(0, changes - changes // 5, changes // 5)
        return timed(lambda: self.merger.whole(SCHEMA.name))

    def read(self, lows: Sequence[int]) -> float:
        """Seconds of a read by the other column, of a hundredth of its values, from one of these on."""
        low = int(self._rng.choice(lows))
        where = f"{OTHER} BETWEEN {low} AND {low + SPREAD // 100 - 1}"
        question = f"SELECT count(*), max(s0), max(s5) FROM delta.{quote(self.path)} WHERE {where}"
        with self.sessions.take() as spark:
            return timed(lambda: spark.sql(question).collect())

    def content(self) -> tuple[int, int]:
        """The number of rows, and a sum over them."""
        listed = ", ".join(column.name for column in SCHEMA.columns)
        question = f"SELECT count(*), sum(xxhash64({listed}) % 1000003) FROM delta.{quote(self.path)}"
        with self.sessions.take() as spark:
            (row,) = spark.sql(question).collect()
        return int(row[0]), int(row[1])

    @property
    def files(self) -> int:
        return len(self.lake.open(self.path).file_uris())


@dataclass(frozen=True, slots=True)
class Bench:
    """Where tables are measured, at which size and how often."""

    folder: Path
    sessions: Sessions
    spark: psutil.Process
    rows: int
    changes: int
    rounds: int

    def tables(self, layouts: Mapping[str, Layouts]) -> dict[str, Table]:
        return {
            name: Table(self.folder / name.replace(" ", "-"), self.sessions, self.rows, one)
            for name, one in layouts.items()
        }

    def by_turns(self, works: Mapping[str, Callable[[], float]]) -> Took:
        """The seconds of each work and Spark's of CPU, in changing order; the first round is not counted."""
        took: Took = {name: [] for name in works}
        for number in range(self.rounds + 1):
            for name in list(works)[:: 1 if number % 2 else -1]:
                used = cpu(self.spark)
                seconds = works[name]()
                if number:
                    took[name].append((seconds, cpu(self.spark) - used))
        return took

    def config(self, **more: object) -> dict[str, object]:
        return {"rows": self.rows, "changes": self.changes, "load": round(os.getloadavg()[0], 1), **more}


def change_data_feed(bench: Bench) -> None:
    tables = bench.tables({"with": Layouts(properties={"*": {CHANGE_FEED: "true"}}), "without": Layouts()})
    took = bench.by_turns({name: partial(one.merge, bench.changes, near=False) for name, one in tables.items()})
    assert tables["with"].content() == tables["without"].content()
    fed = {name: any(Path(one.path, "_change_data").glob("*.parquet")) for name, one in tables.items()}
    assert fed == {"with": True, "without": False}
    seconds, used = _medians(took)
    config = bench.config(limit=1.3, spark_cpu=_ratio(used, "with", "without"), seconds_and_cpu=_rounded(took))
    report("change_data_feed", seconds["with"] / seconds["without"], "times", config)


def cluster_by(bench: Bench) -> None:
    layouts = {"key order": Layouts(), "by key": Layouts(cluster_by={"*": ("id",)})}
    tables = bench.tables(layouts | {"by other": Layouts(cluster_by={"*": (OTHER,)})})
    laid = {name: round(one.lay_out(), 2) for name, one in tables.items()}
    files = {name: one.files for name, one in tables.items()}
    lows = [*range(0, SPREAD, SPREAD // 100)]
    reads = bench.by_turns({name: partial(one.read, lows) for name, one in tables.items()})
    took = bench.by_turns({name: partial(one.merge, bench.changes, near=True) for name, one in tables.items()})
    assert len({one.content() for one in tables.values()}) == 1
    (merge, used), (read, _) = _medians(took), _medians(reads)
    config = bench.config(
        by_key=_ratio(merge, "by key", "key order"),
        spark_cpu={name: _ratio(used, name, "key order") for name in ("by key", "by other")},
        read_by_other=_ratio(read, "by other", "key order"),
        laid_out_in=laid,
        files=files,
        merge_seconds_and_cpu=_rounded(took),
        read_seconds_and_cpu=_rounded(reads),
    )
    report("cluster_by", merge["by other"] / merge["key order"], "times", config)


def _medians(took: Took) -> tuple[dict[str, float], dict[str, float]]:
    """The medians of the seconds, and of Spark's of CPU."""
    seconds, used = ({name: median(one[part] for one in found) for name, found in took.items()} for part in (0, 1))
    return seconds, used


def _ratio(found: Mapping[str, float], one: str, other: str) -> float:
    return round(found[one] / found[other], 2)


def _rounded(took: Took) -> dict[str, list[list[float]]]:
    return {name: [[round(one, 2) for one in pair] for pair in pairs] for name, pairs in took.items()}


MEASUREMENTS = {"change_data_feed": change_data_feed, "cluster_by": cluster_by}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("only", nargs="?", choices=MEASUREMENTS)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=4)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-layout-") as directory, ExitStack() as ends:
        spark = SparkConnect(Path(directory) / "spark", free_port()).start()
        ends.callback(spark.kill)
        assert spark.pid is not None
        server, sizes = psutil.Process(spark.pid), [int(given.scale * size) for size in (ROWS, CHANGES)]
        with Sessions(spark.remote) as sessions:
            for name, measure in MEASUREMENTS.items():
                if given.only in (None, name):
                    measure(Bench(Path(directory) / name, sessions, server, *sizes, given.rounds))


if __name__ == "__main__":
    main()
