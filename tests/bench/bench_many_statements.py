"""Many tables that are made while the stream runs: a CREATE TABLE and a row of it, in turn. Prints JSON.

`many_statements`: seconds from the first statement at the source until the lake has all tables with their rows, by the
demo's stack, which is warm and rests before. In the configuration: the batches, and by when the half of them was noted.

    python -m tests.bench.bench_many_statements [--statements 100]
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import psutil

from orchestration.demo import shop
from orchestration.demo.demo import Demo, running
from orchestration.demo.files import DESTINATION
from orchestration.demo.freshness import batches
from orchestration.stack.ports import Ports, free_port
from orchestration.stack.progress import Progress
from spark_jobs.lake.tables import Lake
from tests.bench.bench_merge import cpu
from tests.bench.bench_service import report

LIMIT = 40.0  # seconds, for 500 statements
PATIENCE = 1800.0
COLUMNS = "id BIGINT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2), changed DATETIME(6)"
ROW = "(1, 'first', 1.25, '2026-01-01 00:00:00')"


def make(demo: Demo, count: int) -> None:
    """The statements and their rows, each row a transaction."""
    with closing(demo.mysql.root(shop.DATABASE)) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        for number in range(count):
            cursor.execute(f"CREATE TABLE made_{number} ({COLUMNS})")
            cursor.execute(f"INSERT INTO made_{number} VALUES {ROW}")


def lacking(lake: Lake, count: int) -> list[str]:
    """The tables that do not have their row."""
    names = [f"made_{number}" for number in range(count)]
    return [
        name
        for name in names
        if not lake.has(shop.DATABASE, name)
        or lake.open(lake.path(shop.DATABASE, name)).to_pyarrow_dataset().count_rows() != 1
    ]


def gaps(root: Path, since: float) -> list[float]:
    """The seconds from each batch to the next, from a time on."""
    at = sorted(batch.visible.at for batch in batches(root, DESTINATION, 1001) if batch.visible.at > since)
    return [later - before for before, later in zip([since, *at], at, strict=False)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--statements", type=int, default=500)
    given = options.parse_args()
    ports = Ports(free_port(), free_port(), free_port())
    with running(ports, 100.0, Progress(quiet=True)) as demo:
        assert demo.spark.pid is not None
        spark = psutil.Process(demo.spark.pid)
        demo.load(10)
        demo.drain()
        used, since, began = cpu(spark), time.time(), time.monotonic()
        make(demo, given.statements)
        made = time.monotonic() - began
        demo.drain(PATIENCE)
        seconds, used = time.monotonic() - began, cpu(spark) - used
        missing = lacking(Lake(demo.lake), given.statements)
        assert not missing, missing
        found = gaps(demo.lake, since)
    config = {
        "statements": given.statements,
        "batches": len(found),
        "first": round(found[0], 1),
        "median": round(median(found), 2),
        "source": round(made, 1),
        "spark_cpu_seconds": round(used),
        "limits": {"500": LIMIT},
    }
    report("many_statements", seconds, "s", config)


if __name__ == "__main__":
    main()
