"""A union of many shards beside one table of as many rows. Prints JSON.

`many_to_one`: every row is changed; seconds from the claim to its ack, the union published. The peer is the one table.

    python -m tests.bench.bench_unions [--shards 100] [--rows 1000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
from deltalake import DeltaTable

from cdc_core.client.connector import Connector
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.session import Sessions
from tests.bench.bench_merge import COLUMNS, RING_MB, VALUES, Ways
from tests.bench.bench_service import OPTIONS, Service, fill, report, serving

UNION = Union("all.orders", r"bench\.orders_(\d+)", ("shop",))
_INSERT = (
    f"INSERT INTO bench.{{}} SELECT n, {VALUES} FROM (SELECT a.d + 1000 * b.d AS n FROM seed.d b, seed.d a) numbers"
)


@dataclass
class Sides:
    """The shards and the one table, of one source, service and lake."""

    mysql: MySqlServer
    ways: Ways
    shards: int
    rows: int
    took: dict[str, list[float]] = field(default_factory=lambda: {"shards": [], "whole": []})

    def first(self) -> None:
        """The first rows of all."""
        where = f"WHERE n < {self.rows}"
        inserts = [f"{_INSERT.format(f'orders_{n}')} {where}" for n in range(self.shards)]
        whole = f"{_INSERT.format('whole')} WHERE n < {self.rows * self.shards}"
        self._drained(inserts)
        self._drained([whole])

    def change(self, number: int, *, keep: bool) -> None:
        update = f"UPDATE bench.{{}} SET customer = customer + 1, note = CONCAT('round {number} of ', id)"
        work = {
            "shards": [update.format(f"orders_{n}") for n in range(self.shards)],
            "whole": [update.format("whole")],
        }
        for side in ("shards", "whole") if number % 2 else ("whole", "shards"):
            seconds = self._drained(work[side])
            if keep:
                self.took[side].append(seconds)

    def _drained(self, statements: Sequence[str]) -> float:
        """The seconds of a run that takes what these write."""
        with self.mysql.root() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        rows, connector = self.shards * self.rows, self.ways.connector
        self.ways.service.until(lambda _: connector.client_status().backlog_rows >= rows, 600)
        began = time.perf_counter()
        assert self.ways.ours(rows) == 1
        return time.perf_counter() - began


def measured(mysql: MySqlServer, service: Service, spark: SparkConnect, root: Path, given: argparse.Namespace) -> None:
    doors = f"http://127.0.0.1:{service.http}", f"grpc://127.0.0.1:{service.flight}"
    with Connector(doors[0], "bench", flight_url=doors[1]) as connector, Sessions(spark.remote) as sessions:
        ways = Ways(service, connector, sessions, psutil.Process(spark.pid), root)
        lake = Lake(root / "ours", complete=True, unions=Unions("bench", (UNION,)))
        ways.lake = replace(ways.lake, lake=lake, fence=Fence(lake, sessions))
        sides = Sides(mysql, ways, given.shards, given.rows)
        sides.first()
        for number in range(given.rounds + 1):  # the first one warms
            sides.change(number, keep=number > 0)
        union = DeltaTable(lake.path("all", "orders"))
        assert union.to_pyarrow_table(columns=["id"]).num_rows == given.shards * given.rows
    config = {"shards": given.shards, "rows": given.rows, "rounds": sides.took, "load": round(os.getloadavg()[0], 1)}
    value, other = (statistics.median(sides.took[side]) for side in ("shards", "whole"))
    report("many_to_one", value, "s", config | {"limit_of_peers": 2}, "one table", other)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shards", type=int, default=100)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-unions-") as scratch:
        mysql = MySqlServer("8.0.31", Path(scratch) / "mysql", **OPTIONS).start()
        spark = SparkConnect(Path(scratch) / "spark", free_port(), driver_memory="4g").start()
        try:
            names = ["whole", *(f"orders_{n}" for n in range(given.shards))]
            start = fill(mysql, [f"CREATE TABLE bench.{name} {COLUMNS}" for name in names])
            with serving(mysql, start, canal__instance__memory__buffer__size=RING_MB << 10) as service:
                measured(mysql, service, spark, Path(scratch) / "lake", given)
        finally:
            spark.stop()
            mysql.stop()


if __name__ == "__main__":
    main()
