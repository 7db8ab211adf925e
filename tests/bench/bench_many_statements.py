"""Many tables that are made, and then altered, while the stream runs: a statement and a row of its table, in turn.
Prints JSON.

`many_statements`: seconds from the first CREATE TABLE at the source until the lake has all tables with their rows, by
the demo's stack, which is warm and rests before; then all are compared with the source. `many_alters`: the same of an
ADD COLUMN to some of these tables and a row of each, with a row of another table before each. In the configuration: the
batches, by when the first of them was noted, and the median from one to the next.

    python -m tests.bench.bench_many_statements [--statements 100] [--alters 50]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
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
from spark_jobs.snapshot.source import Source
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.verified import Verified
from tests.bench.bench_merge import cpu
from tests.bench.bench_service import report

LIMIT = 40.0  # seconds, for 500 tables that are made
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


def alter(demo: Demo, count: int, other: str) -> None:
    """A column more for each table, with a row of it, and before each a row of `other`; each row a transaction."""
    with closing(demo.mysql.root(shop.DATABASE)) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        for number in range(count):
            cursor.execute(f"INSERT INTO {other} (id) VALUES ({number + 2})")
            cursor.execute(f"ALTER TABLE made_{number} ADD COLUMN note VARCHAR(40)")
            cursor.execute(f"INSERT INTO made_{number} (id, note) VALUES (2, 'altered')")


def differing(demo: Demo, count: int) -> list[Verified]:
    """The tables in which source and lake differ."""
    source = Source(demo.mysql.host, demo.mysql.port, demo.mysql.user, demo.mysql.password)
    tables = [(shop.DATABASE, f"made_{number}") for number in range(count)]
    with demo.connector() as connector:
        found = list(compared(TableComparer(connector, source, Lake(demo.lake)), tables))
    assert len(found) == count
    return [one for one in found if one.differences]


def gaps(root: Path, since: float) -> list[float]:
    """The seconds from each batch to the next, from a time on."""
    at = sorted(batch.visible.at for batch in batches(root, DESTINATION, 1001) if batch.visible.at > since)
    return [later - before for before, later in zip([since, *at], at, strict=False)]


def measure(name: str, demo: Demo, work: Callable[[], None], config: dict[str, object]) -> None:
    """Reports the seconds from the work's start until the lake has what it did."""
    assert demo.spark.pid is not None
    spark = psutil.Process(demo.spark.pid)
    used, since, began = cpu(spark), time.time(), time.monotonic()
    work()
    made = time.monotonic() - began
    demo.drain(PATIENCE)
    seconds, used = time.monotonic() - began, cpu(spark) - used
    found = gaps(demo.lake, since)
    batches = {"batches": len(found), "first": round(found[0], 1), "median": round(median(found), 2)}
    report(name, seconds, "s", config | batches | {"source": round(made, 1), "spark_cpu_seconds": round(used)})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--statements", type=int, default=500)
    options.add_argument("--alters", type=int, default=200)
    given = options.parse_args()
    made, altered = given.statements, min(given.alters, given.statements - 1)
    ports = Ports(free_port(), free_port(), free_port())
    with running(ports, 100.0, Progress(quiet=True)) as demo:
        demo.load(10)
        demo.drain()
        limits: dict[str, object] = {"statements": made, "limits": {"500": LIMIT}}
        measure("many_statements", demo, lambda: make(demo, made), limits)
        measure("many_alters", demo, lambda: alter(demo, altered, f"made_{made - 1}"), {"statements": altered})
        wrong = differing(demo, made)
        assert not wrong, wrong


if __name__ == "__main__":
    main()
