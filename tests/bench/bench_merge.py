"""Applying batches to ten tables: our way, against the bare MERGEs over Parquet, and against rows as dictionaries.

Net changes lie ready in a Flight server, as in Parquet for the peer: what is measured is the way into Delta.
All ways write to tables of their own, take turns, and are warm. Prints one JSON object a line.

    python -m tests.bench.bench_merge [--scale 0.1] [--rounds 3] [--remote sc://...]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdc_core.position import EntryPosition
from cdc_core.session.claim import Claim, TableRange
from spark_jobs.lake import Lake
from spark_jobs.merge import apply_batch
from spark_jobs.session import Sessions
from spark_jobs.statements import append_upserts, merge_keyed
from tests.spark_feed import JOURNAL, Feed, Table, feed

TABLES, PARALLEL = 10, 4
FIELDS = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.int32(),
        "name": pa.string(),
        "price": pa.decimal128(12, 2),
        "changed": pa.timestamp("us"),
        "note": pa.string(),
    }
)
NAMES = FIELDS.names
Ready = list[tuple[Table, pa.Table, dict[str, Any]]]


def net(rng: np.random.Generator, low: int, rows: int, changes: int) -> tuple[pa.Table, dict[str, Any]]:
    """Changes of keys from `low`: half updates, three tenths inserts after the last key, two tenths deletes."""
    deletes, inserts = changes // 5, changes * 3 // 10
    touched = low + rng.choice(rows, changes - inserts, replace=False)
    keys = np.concatenate([touched, low + rows + np.arange(inserts)])
    op = np.ones(changes, np.int8)
    op[:deletes] = 2
    mask = op == 2
    cents = pa.array(rng.integers(0, 1_000_000, changes)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2))
    when = pa.array(1_700_000_000_000_000 + rng.integers(0, 10**12, changes)).cast(pa.timestamp("us"))
    columns = [
        pa.array(rng.integers(0, 50_000, changes), pa.int32()),
        pa.array([f"name {n}" for n in rng.integers(0, 10**6, changes)]),
        cents,
        when,
        pa.array([f"a note of some length on {n}" for n in rng.integers(0, 10**9, changes)]),
    ]
    gone = pa.array(mask)
    bare = [pa.compute.if_else(gone, pa.scalar(None, column.type), column) for column in columns]
    table = pa.Table.from_arrays([pa.array(keys), *bare, pa.array(op)], [*NAMES, "_sluice_op"])
    counts = {"rows": changes, "upserts": changes - deletes, "deletes": deletes}
    raw = {"raw_inserts": inserts, "raw_updates": changes - inserts - deletes, "raw_deletes": deletes}
    bounds = {"min_key": int(keys.min()), "max_key": int(keys.max())}
    return table, counts | raw | bounds | {"insert_only": not deletes and changes == inserts}


def seed_net(rng: np.random.Generator, rows: int) -> tuple[pa.Table, dict[str, Any]]:
    """What fills a table: inserts alone."""
    table, plan = net(rng, 0, 0, 0) if not rows else _inserts(rng, rows)
    return table, plan


def _inserts(rng: np.random.Generator, rows: int) -> tuple[pa.Table, dict[str, Any]]:
    table, _ = net(rng, -10 * rows, 10 * rows, rows)
    table = table.set_column(0, "id", pa.array(np.arange(rows))).set_column(
        6, "_sluice_op", pa.array(np.ones(rows, np.int8))
    )
    counts = {"rows": rows, "upserts": rows, "deletes": 0, "raw_inserts": rows, "raw_updates": 0, "raw_deletes": 0}
    return table, counts | {"min_key": 0, "max_key": rows - 1, "insert_only": True}


class Ways:
    """The three ways, each with tables of its own; `number` is the batch, so that every round has fresh changes."""

    def __init__(self, service: Feed, sessions: Sessions, root: Path, rows: int) -> None:
        self.service, self.sessions, self.root, self.rows = service, sessions, root, rows
        self.rng = np.random.default_rng(1)
        self.ours = Lake(root / "ours")
        self.number = 0
        self.low = 0

    def fill(self) -> None:
        ready = [(self._table(n), *_inserts(self.rng, self.rows)) for n in range(TABLES)]
        self.offer(ready)
        self.apply()
        for peer in ("bare", "plain"):
            self._each(lambda spark, item, peer=peer: self._fill_one(spark, item, peer), ready, PARALLEL)

    def _fill_one(self, spark: Any, item: tuple[Table, pa.Table, Any], peer: str) -> None:
        table, path = item[0], self._path(peer, item[0])
        self.ours.create(spark, path, peer, table.schema, self._columns(table))
        self._view(spark, item)
        spark.sql(append_upserts(path, "ready", NAMES)).collect()

    def _columns(self, table: Table) -> Any:
        from spark_jobs.types import lake_columns

        return lake_columns(table.fields, table.schema)

    def _table(self, number: int) -> Table:
        return Table(f"t{number}", FIELDS, key=("id",))

    def _path(self, way: str, table: Table) -> str:
        return str(self.root / way / table.name)

    def changes(self, total: int) -> Ready:
        """A batch's net changes over all tables, of keys that are still there."""
        each = total // TABLES
        rows = self.rows - self.low if self.low < self.rows else each * 2
        ready = [(self._table(n), *net(self.rng, self.low, rows, min(each, rows))) for n in range(TABLES)]
        self.low += 0
        return ready

    def offer(self, ready: Ready) -> None:
        """Puts the changes into the Flight server and into Parquet files."""
        self.number += 1
        self.service.ready = {table.schema.name: (table, rows, plan) for table, rows, plan in ready}
        for table, rows, _ in ready:
            place = self.root / "parquet" / f"{self.number}"
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, place / f"{table.name}.parquet")

    def apply(self) -> float:
        """Our way."""
        ranges = tuple(
            TableRange(table.schema, plan["raw_inserts"], plan["raw_updates"], plan["raw_deletes"])
            for table, _, plan in self.service.ready.values()
        )
        start, end = EntryPosition(JOURNAL, self.number), EntryPosition(JOURNAL, self.number + 1)
        claim = Claim("bench", 1, self.number, start, end, ranges, 1, 1, 1, (), 1, "bench", 0.0)
        self.service.claims[self.number] = claim
        began = time.perf_counter()
        results = apply_batch(claim, self.ours, self.sessions, self.service.url, parallelism=PARALLEL)
        took = time.perf_counter() - began
        assert not any(result.stop or result.replayed for result in results)
        return took

    def bare(self, ready: Ready) -> float:
        """The same MERGE statements over Parquet, side by side likewise."""
        began = time.perf_counter()
        self._each(self._bare_one, ready, PARALLEL)
        return time.perf_counter() - began

    def _bare_one(self, spark: Any, item: tuple[Table, pa.Table, dict[str, Any]]) -> None:
        table, _, plan = item
        self._view(spark, item)
        spark.sql(merge_keyed(self._path("bare", table), "ready", NAMES, ["id"], plan, True)).collect()

    def _view(self, spark: Any, item: tuple[Table, pa.Table, Any]) -> None:
        file = self.root / "parquet" / f"{self.number}" / f"{item[0].name}.parquet"
        spark.read.parquet(str(file)).createOrReplaceTempView("ready")

    def plain(self, ready: Ready) -> float:
        """Rows as dictionaries, createDataFrame, one MERGE after the other."""
        rows = {table.name: changed.to_pylist() for table, changed, _ in ready}
        schema = "id bigint, customer int, name string, price decimal(12,2), changed timestamp_ntz, note string"

        def one(spark: Any, item: tuple[Table, pa.Table, dict[str, Any]]) -> None:
            frame = spark.createDataFrame(rows[item[0].name], f"{schema}, _sluice_op tinyint")
            frame.createOrReplaceTempView("plain")
            statement = merge_keyed(self._path("plain", item[0]), "plain", NAMES, ["id"], item[2], False)
            spark.sql(statement).collect()

        began = time.perf_counter()
        self._each(one, ready, 1)
        return time.perf_counter() - began

    def _each(self, work: Callable[[Any, Any], None], ready: Ready, parallel: int) -> None:
        def run(item: Any) -> None:
            with self.sessions.take() as spark:
                work(spark, item)

        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(run, ready))


def measure(ways: Ways, total: int, rounds: int, plain: bool) -> dict[str, list[float]]:
    """Seconds of each way by round; the first round warms and is left out."""
    took: dict[str, list[float]] = {"ours": [], "bare": [], "plain": []}
    for number in range(rounds + 1):
        ready = ways.changes(total)
        ways.offer(ready)
        turns: list[tuple[str, Callable[[], float]]] = [
            ("ours", ways.apply),
            ("bare", lambda ready=ready: ways.bare(ready)),
        ]
        if plain:
            turns.append(("plain", lambda ready=ready: ways.plain(ready)))
        for name, turn in turns[:: 1 if number % 2 else -1]:
            seconds = turn()
            if number:
                took[name].append(seconds)
    return took


def line(name: str, ours: list[float], peer: list[float], what: str, config: dict[str, Any]) -> None:
    value, other = statistics.median(ours), statistics.median(peer)
    told = {"name": name, "value": round(value, 2), "unit": "s", "peer": what, "peer_value": round(other, 2)}
    spread = {"ours": [round(s, 2) for s in ours], "peer": [round(s, 2) for s in peer]}
    print(json.dumps(told | {"ratio": round(other / value, 3), "config": config | spread}), flush=True)


@contextmanager
def remote(named: str, scratch: Path) -> Iterator[str]:
    """The server named, or one of our own."""
    if named:
        yield named
        return
    from orchestration.stack.home import free_port
    from orchestration.stack.spark import SparkConnect

    server = SparkConnect(scratch / "spark", free_port(), driver_memory="4g").start()
    try:
        yield server.remote
    finally:
        server.stop()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--remote", default="")
    options.add_argument("--only", choices=["ten", "backlog"], default=None)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as scratch, feed() as service:
        place = Path(scratch)
        with remote(given.remote, place) as url, Sessions(url) as sessions:
            if given.only != "backlog":
                _ten_tables(service, sessions, place / "ten", given.scale, given.rounds)
            if given.only != "ten":
                _backlog(service, sessions, place / "backlog", given.scale)


def _ten_tables(service: Feed, sessions: Sessions, root: Path, scale: float, rounds: int) -> None:
    rows, total = int(100_000 * scale), int(100_000 * scale)
    ways = Ways(service, sessions, root, rows)
    ways.fill()
    took = measure(ways, total, rounds, plain=True)
    config = {
        "tables": TABLES,
        "changes": total,
        "rows_a_table": rows,
        "side_by_side": PARALLEL,
        "cores": os.cpu_count(),
    }
    line("merge_ten_tables", took["ours"], took["bare"], "the same bare MERGEs over Parquet", config)
    line("merge_plain_way", took["ours"], took["plain"], "dictionaries, createDataFrame, one after the other", config)


def _backlog(service: Feed, sessions: Sessions, root: Path, scale: float, batches: int = 2) -> None:
    """A backlog drained in two claims, against the bare MERGEs of the whole."""
    rows, total = int(400_000 * scale), int(2_000_000 * scale)
    ways = Ways(service, sessions, root, rows)
    ways.fill()
    ready = ways.changes(total)
    ways.offer(ready)
    bare = ways.bare(ready)
    ours = 0.0
    for part in range(batches):
        cut = [(t, r.take(np.arange(part, r.num_rows, batches)), _share(plan, batches)) for t, r, plan in ready]
        ways.offer(cut)
        ours += ways.apply()
    config = {"tables": TABLES, "changes": total, "rows_a_table": rows, "claims": batches, "cores": os.cpu_count()}
    line("merge_backlog", [ours], [bare], "the same bare MERGEs over Parquet, of the whole", config)


def _share(plan: dict[str, Any], parts: int) -> dict[str, Any]:
    counted = {"rows", "upserts", "deletes", "raw_inserts", "raw_updates", "raw_deletes"}
    return {name: value // parts if name in counted else value for name, value in plan.items()}


if __name__ == "__main__":
    main()
