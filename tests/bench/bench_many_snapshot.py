"""Many small tables of MySQL into Delta: `sluice snapshot` of a whole database, from the first claim of work on.

The tables have their rows before the service starts, which is configured as shipped, and the command has its defaults;
no run drains meanwhile. Source and lake are compared afterwards, row by row.
`many_snapshot`: seconds until all tables are in the lake. `config` has the seconds a table, the CPU seconds of all
processes but MySQL's, and where the time goes: `parts` are seconds in each step, of all threads together.

    python -m tests.bench.bench_many_snapshot [--tables 150] [--rows 100]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import partial, reduce
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from cdc_core.client.connector import Connector
from orchestration.commands.verb import run
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.spark import SparkConnect
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Snapshot
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.snapshot.source import Source
from tests.bench.bench_merge import COLUMNS, VALUES, cpu
from tests.bench.bench_service import OPTIONS, Service, report, serving
from tests.support.judge.verify import Reader, verify
from tests.support.servers import free_port

SHIPPED = {"canal__instance__memory__buffer__size": 262144, "sluice__store__bytes": "auto"}  # as `conf` has it
PARTS = {
    "register": "cdc_core.client.snapshot_calls:SnapshotCalls.open",
    "note": "cdc_core.client.snapshot_calls:SnapshotCalls.note",
    "close": "cdc_core.client.snapshot_calls:SnapshotCalls.close",
    "place": "spark_jobs.load.small:settled",
    "stage": "spark_jobs.load.small_reader:SmallReader._stage",
    "end": "spark_jobs.load.small:between",
    "flush": "spark_jobs.load.cutover:flush",
    "claim": "spark_jobs.load.hold:_claimed",
    "switch": "spark_jobs.load.cutover:switch",
    "unstage": "spark_jobs.load.staging:Staging.remove",
}


@contextmanager
def timed(parts: Mapping[str, str]) -> Iterator[dict[str, float]]:
    """The seconds spent in functions, named `module:attribute`, of all threads together."""
    spent: dict[str, float] = defaultdict(float)
    lock = threading.Lock()

    def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                with lock:
                    spent[name] += time.perf_counter() - began

        return measured

    patches = []
    for name, place in parts.items():
        module, _, path = place.partition(":")
        *owners, last = path.split(".")
        owner = reduce(getattr, owners, importlib.import_module(module))
        patches.append(mock.patch.object(owner, last, wrapped(name, getattr(owner, last))))
    for patch in patches:
        patch.start()
    try:
        yield spent
    finally:
        for patch in patches:
            patch.stop()


def fill(mysql: MySqlServer, tables: int, rows: int, database: str = "bench") -> tuple[str, int]:
    """So many tables of so many rows, none of which is in the binlog after the place that is returned."""
    numbers = ", ".join(f"({number})" for number in range(rows))
    statements = [
        "CREATE DATABASE seed",
        "CREATE TABLE seed.d (n INT PRIMARY KEY)",
        f"INSERT INTO seed.d VALUES {numbers}",
        f"CREATE DATABASE {database}",
    ]
    for number in range(tables):
        name = f"{database}.t{number:04}"
        statements += [f"CREATE TABLE {name} {COLUMNS}", f"INSERT INTO {name} SELECT n, {VALUES} FROM seed.d"]
    mysql.execute(*statements)
    return mysql.position()


def check_equal(mysql: MySqlServer, connector: Connector, lake: Lake, tables: int) -> None:
    """Source and lake, row by row."""
    source = Source(mysql.host, mysql.port, mysql.user, mysql.password)
    status = connector.client_status
    reader = Reader("bench", connector.client_id, status().epoch, lambda: status().cursor)
    named = [("bench", f"t{number:04}") for number in range(tables)]
    for found in verify(source, named, lake, reader, timeout_seconds=60):
        assert found.comparison is not None, found.error
        counted = found.comparison
        assert (counted.missing, counted.extra, counted.different) == (0, 0, 0), (found.table, counted)


def measure(mysql: MySqlServer, spark: SparkConnect, service: Service, root: Path, tables: int, rows: int) -> None:
    lake = Lake(root / "lake", complete=True)
    doors = f"http://127.0.0.1:{service.http}", f"grpc://127.0.0.1:{service.flight}"
    connect = partial(Connector, doors[0], "bench", flight_url=doors[1])
    at = Access("bench", 1001, connect, lambda: Sessions(spark.remote), lake, service.conf)
    server = psutil.Process(spark.pid)
    before = {"spark": cpu(server), "service": service.cpu(), "reader": time.process_time()}
    with timed(PARTS) as parts:
        began = time.perf_counter()
        with redirect_stdout(sys.stderr):
            failed = run(Snapshot.model_validate({}), at, as_json=True)
        seconds = time.perf_counter() - began
    assert not failed
    after = {"spark": cpu(server), "service": service.cpu(), "reader": time.process_time()}
    with connect() as connector:
        check_equal(mysql, connector, lake, tables)
        client = connector.client_status()
        assert (client.snapshots, client.stopped) == ((), ()), client
    told = {
        "tables": tables, "rows_a_table": rows, "seconds_a_table": round(seconds / tables, 3),
        "cpu_seconds": {name: round(after[name] - used, 1) for name, used in before.items()},
        "parts": {name: round(spent, 2) for name, spent in parts.items()}, "verify": "equal",
    }  # fmt: skip
    report("many_snapshot", seconds, "s", told)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", type=int, default=150)
    options.add_argument("--rows", type=int, default=100)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-many-snapshot-") as scratch:
        root = Path(scratch)
        mysql = MySqlServer("8.0.31", root / "mysql", **OPTIONS).start()
        spark = SparkConnect(root / "spark", free_port(), driver_memory="1g")
        try:
            place = fill(mysql, given.tables, given.rows)
            spark.start()
            with serving(mysql, place, **SHIPPED) as service:
                service.until_warm()
                measure(mysql, spark, service, root, given.tables, given.rows)
        finally:
            spark.stop()
            mysql.stop()


if __name__ == "__main__":
    main()
