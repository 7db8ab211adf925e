"""What expectations cost a claim: the same changes to lakes of which more or less is expected, in turn, by one service.

`expectations`: from a claim of 100,000 changes over ten tables to its ack, with MERGEs into Delta, by a lake with ten
expectations of columns on each table. `expectations_lookups`: with a `unique` and a `references` on each. The peer is a
lake of which nothing is expected; the ratio is its time by ours.

    python -m tests.bench.bench_expectations [--scale 0.1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from cdc_core.client.connector import Connector
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.expectations.column_tests import Bounded, Length, NotNull, Regex
from spark_jobs.expectations.expectation import (
    NO_EXPECTATIONS,
    Expectation,
    Expectations,
    References,
    Severity,
    Unique,
)
from spark_jobs.session import Sessions
from tests.bench.bench_merge import RING_MB, TABLES, Shop, Ways
from tests.bench.bench_rules import until_read
from tests.bench.bench_service import OPTIONS, serving

_Q, _B = Severity.QUARANTINE, Severity.BLOCK
_COLUMNS = (
    Expectation("e0", NotNull(), ("customer",), _B),
    Expectation("e1", NotNull(), ("name",), _Q),
    Expectation("e2", Bounded(0, 50_000_000), ("customer",), _Q),
    Expectation("e3", Bounded(0, 100_000), ("price",), _Q),
    Expectation("e4", Bounded("2020-01-01", "2030-01-01"), ("changed",)),
    Expectation("e5", Length(1, 40), ("name",), _Q),
    Expectation("e6", Length(1, 1000), ("note",)),
    Expectation("e7", Regex("^name [0-9]+$"), ("name",), _Q),
    Expectation("e8", NotNull(), ("changed",), _B),
    Expectation("e9", Regex("^(a note of|round [0-9]+ of )"), ("note",)),
)
_LOOKUPS = (Expectation("one", Unique(), ("changed", "note")), Expectation("known", References("bench.t0"), ("id",)))
_EXPECTED = {
    "none": NO_EXPECTATIONS,
    "expectations": Expectations({"bench.*": _COLUMNS}),
    "expectations_lookups": Expectations({"bench.*": _LOOKUPS}),
}


@contextmanager
def opened(mysql: MySqlServer, spark: SparkConnect, root: Path, rows: int) -> Iterator[tuple[dict[str, Ways], Shop]]:
    """A source with `rows` in each table, and the lakes that have them, each a client of its own."""
    start = mysql.position()
    shop = Shop(mysql, rows)
    assert spark.pid is not None
    with serving(mysql, start, canal__instance__memory__buffer__size=RING_MB << 10) as service, ExitStack() as stack:
        sessions = stack.enter_context(Sessions(spark.remote))
        http, flight = f"http://127.0.0.1:{service.http}", f"grpc://127.0.0.1:{service.flight}"
        lakes: dict[str, Ways] = {}
        for number, (name, expected) in enumerate(_EXPECTED.items()):
            client = stack.enter_context(Connector(http, "bench", flight_url=flight, client_id=1001 + number))
            client.subscribe()
            ways = lakes[name] = Ways(service, client, sessions, psutil.Process(spark.pid), root / name)
            ways.lake = replace(ways.lake, expectations=expected)
        for lake in lakes.values():
            until_read(lake, rows * TABLES)
            lake.ours(rows * TABLES)
        yield lakes, shop


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    rows = changes = int(100_000 * given.scale)
    took: dict[str, list[float]] = {name: [] for name in _EXPECTED}
    with tempfile.TemporaryDirectory(prefix="bench-expectations-") as scratch:
        mysql = MySqlServer("8.0.31", Path(scratch) / "mysql", **OPTIONS).start()
        spark = SparkConnect(Path(scratch) / "spark", free_port(), driver_memory="4g").start()
        try:
            with opened(mysql, spark, Path(scratch) / "lakes", rows) as (lakes, shop):
                each, names = changes // TABLES, list(lakes)
                inserts, deletes = each * 3 // 10, each // 5
                for number in range(given.rounds + 1):  # the first one warms
                    shop.change(inserts, each - inserts - deletes, deletes)
                    for name in names[number % len(names) :] + names[: number % len(names)]:
                        until_read(lakes[name], each * TABLES)
                        began = time.perf_counter()
                        lakes[name].ours(each * TABLES)
                        took[name] += [time.perf_counter() - began] if number else []
        finally:
            spark.stop()
            mysql.stop()
    bare = statistics.median(took["none"])
    for name in (name for name in took if name != "none"):
        value = statistics.median(took[name])
        config = {
            "changes": each * TABLES, "rows_a_table": rows, "tables": TABLES,
            "of_peers_seconds": round(value / bare, 3),
            "turns": [round(one, 2) for one in took[name]], "peer_turns": [round(one, 2) for one in took["none"]],
            "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip
        line = {"name": name, "value": round(value, 3), "unit": "s", "peer": "a lake of which nothing is expected"}
        line |= {"peer_value": round(bare, 3), "ratio": round(bare / value, 3)}
        print(json.dumps(line | {"config": config}), flush=True)


if __name__ == "__main__":
    main()
