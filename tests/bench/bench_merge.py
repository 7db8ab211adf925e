"""Applying batches to ten tables: our way, against the bare MERGEs over Parquet, and against rows as dictionaries.

The whole way is ours: a real MySQL's binlog, the service as a process of its own, claim, net changes, MERGE, checks,
ledger, ack. The peers get the very same net changes lying ready, in Parquet files and as dictionaries, and do nothing
but their MERGEs. All write to tables of their own on one Spark server, take turns in changing order, and are warm.

    python -m tests.bench.bench_merge [--scale 0.1] [--rounds 3] [--only ten|backlog|ops]
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from cdc_core.client.changes import TableRead
from cdc_core.client.connector import Connector
from orchestration.settings import Limits
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.apply.checks import judge
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.ddl import create_table
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import OP, lake_columns, spark_type
from spark_jobs.session import Sessions
from spark_jobs.write.statements import append_upserts, merge_keyed
from tests.bench.bench_service import OPTIONS, Service, serving
from tests.support.flight_calls import flight_info, read_split

TABLES, PARALLEL, RING_MB = 10, 4, 512
_STORE = 8 << 30  # as shipped
COLUMNS = "(id BIGINT PRIMARY KEY, customer INT, name VARCHAR(40), price DECIMAL(12,2), changed DATETIME(6), note TEXT)"
VALUES = (
    "CRC32(CONCAT('c', n)) % 50000, CONCAT('name ', CRC32(n) % 1000000), CRC32(CONCAT('p', n)) % 1000000 / 100, "
    "FROM_UNIXTIME(1700000000 + CRC32(n) % 1000000 / 1000), CONCAT('a note of some length on ', CRC32(CONCAT('n', n)))"
)
_MORE = (
    ", email VARCHAR(60), city VARCHAR(30), amount INT, weight DOUBLE, active TINYINT, day DATE, remark VARCHAR(60))"
)
WIDE = COLUMNS[:-1] + _MORE  # thirteen columns
WIDE_VALUES = VALUES + (
    ", CONCAT('someone', CRC32(n) % 100000, '@example.com'), CONCAT('city ', n % 900), n % 7000, n / 7, n % 2, "
    "DATE_ADD('2020-01-01', INTERVAL n % 2000 DAY), CONCAT('remark on ', n)"
)
Ready = list[tuple[TableRead, Path, list[dict[str, Any]]]]
Took = dict[str, list[tuple[float, float]]]  # seconds, and CPU seconds of Spark, by way


class Shop:
    """Ten tables at the source. Each batch is fresh: its updates and deletes meet rows that are there, its inserts
    none. The tables have six columns, or thirteen when they are `wide`."""

    def __init__(self, mysql: MySqlServer, rows: int, *, wide: bool = False) -> None:
        self.mysql, self.round, self.next, self.low = mysql, 0, 0, 0
        columns, self.values = (WIDE, WIDE_VALUES) if wide else (COLUMNS, VALUES)
        self._run(["DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench", "SET sql_log_bin = 0"])
        digits = ",".join(f"({n})" for n in range(1000))
        self._run(["SET sql_log_bin = 0", "DROP DATABASE IF EXISTS seed", "CREATE DATABASE seed",
                   "CREATE TABLE seed.d (d INT PRIMARY KEY)", f"INSERT INTO seed.d VALUES {digits}"])  # fmt: skip
        self._run([f"CREATE TABLE bench.t{n} {columns}" for n in range(TABLES)])
        self.change(rows, 0, 0)

    def change(self, inserts: int, updates: int, deletes: int, tables: int = TABLES) -> None:
        """In every table, or some, a transaction for each kind of change."""
        self.round += 1
        these = f"b.d <= {inserts // 1000} AND a.d + 1000 * b.d < {inserts}"
        numbers = f"SELECT {self.next} + a.d + 1000 * b.d AS n FROM seed.d b, seed.d a WHERE {these}"
        chosen = f"ORDER BY CRC32(CONCAT(id, 'x{self.round}')) LIMIT"
        sets = f"customer = customer + 1, note = CONCAT('round {self.round} of ', id)"
        for table in [f"bench.t{n}" for n in range(tables)]:
            work = [f"DELETE FROM {table} {chosen} {deletes}"] if deletes else []
            work += [f"UPDATE {table} SET {sets} {chosen} {updates}"] if updates else []
            self._run([*work, f"INSERT INTO {table} SELECT n, {self.values} FROM ({numbers}) numbers"])
        self.next += inserts

    def operate(self, inserts: int, updates: int, deletes: int) -> None:
        """The same kinds of changes, each row a transaction of its own, in one table after the other."""
        self.round += 1
        for table in [f"bench.t{n}" for n in range(TABLES)]:
            work = f"""CREATE PROCEDURE seed.operate() BEGIN
                DECLARE k BIGINT; DECLARE at INT DEFAULT 0;
                WHILE at < {inserts} DO
                    SET k = {self.next} + at; INSERT INTO {table} SELECT n, {self.values} FROM (SELECT k AS n) one;
                    SET at = at + 1;
                END WHILE;
                SET at = 0;
                WHILE at < {updates} DO
                    UPDATE {table} SET customer = customer + 1, note = CONCAT('round {self.round} of ', id)
                        WHERE id = {self.low} + {deletes} + at;
                    SET at = at + 1;
                END WHILE;
                SET at = 0;
                WHILE at < {deletes} DO DELETE FROM {table} WHERE id = {self.low} + at; SET at = at + 1; END WHILE;
                END"""
            log = "SET sql_log_bin = {}"
            steps = [log.format(0), "DROP PROCEDURE IF EXISTS seed.operate", work, log.format(1), "CALL seed.operate()"]
            self._run(steps)
        self.next += inserts
        self.low += deletes

    def _run(self, statements: list[str]) -> None:
        with self.mysql.root() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@dataclass
class Ways:
    """The three ways over one source and one Spark server, each with tables of its own."""

    service: Service
    connector: Connector
    sessions: Sessions
    spark: psutil.Process
    root: Path
    number: int = 0
    took: Took = field(default_factory=lambda: {"ours": [], "bare": [], "plain": []})
    lake: SparkLake = field(init=False)

    def __post_init__(self) -> None:
        """One run's: all batches of a run have the same fence."""
        root = Lake(self.root / "ours", complete=True)
        self.lake = SparkLake(self.connector, root, self.sessions, "", Fence(root, self.sessions))

    def ready(self, rows: int, dictionaries: bool) -> Ready:
        """The net changes of the whole backlog, read once for the peers and given back."""
        self.service.until(lambda _: self.connector.client_status().backlog_rows >= rows, 600)
        self.number += 1
        claim = self.connector.get_without_ack(rows, owner="peek", timeout_seconds=30, lease_seconds=600)
        assert claim is not None
        assert claim.rows == rows, f"the ring does not hold the whole backlog: {claim.rows} of {rows}"
        found: Ready = []
        for table in claim.tables:
            read = flight_info(self.connector.flight_url, claim, table.name)
            parts = [part for t in read.tickets for part in read_split(self.connector.flight_url, t)]
            net = pa.Table.from_batches(parts, read.schema.remove_metadata())
            file = self.root / "ready" / f"{self.number}-{table.schema.table}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(net, file)
            found.append((read, file, net.to_pylist() if dictionaries else []))
        self.connector.rollback(claim, reason="read for the peers")
        return found

    def ours(self, batch_size: int) -> int:
        """As a run drains: until nothing is left. The number of batches."""
        lake = self.lake
        lake.check_cursor(self.connector.client_status())
        for batches in range(1000):
            with self.connector.claim(batch_size, owner="bench", lease_seconds=600) as claim:
                if claim is None:
                    return batches
                batch = lake.apply(claim, "bench", PARALLEL, [])
                assert not batch.refused
                assert not any(result.replayed for result in batch.applied)
                assert all(verdict.passed for result in batch.applied for verdict in judge(claim, result))
                lake.note(claim, batch, "bench")
        raise AssertionError("it does not end")

    def bare(self, ready: Ready) -> None:
        """The same MERGE statements over Parquet, side by side likewise."""

        def one(spark: Any, item: tuple[TableRead, Path, Any]) -> None:
            spark.read.parquet(str(item[1])).createOrReplaceTempView("ready")
            spark.sql(self._merge("bare", item[0])).collect()

        self._each(one, ready, PARALLEL)

    def plain(self, ready: Ready) -> None:
        """Rows as dictionaries, createDataFrame, one MERGE after the other."""

        def one(spark: Any, item: tuple[TableRead, Path, list[dict[str, Any]]]) -> None:
            schema = ", ".join(f"{f.name} {spark_type(f.type)}" for f in item[0].schema)
            spark.createDataFrame(item[2], schema).createOrReplaceTempView("ready")
            spark.sql(self._merge("plain", item[0])).collect()

        self._each(one, ready, 1)

    def fill(self, rows: int) -> None:
        """The first rows of all ways' tables."""
        ready = self.ready(rows, dictionaries=False)
        self.ours(rows)

        def one(spark: Any, item: tuple[TableRead, Path, Any]) -> None:
            read, file, _ = item
            spark.read.parquet(str(file)).createOrReplaceTempView("ready")
            for way in ("bare", "plain"):
                columns = lake_columns(read.schema, read.table)
                create_table(spark, Lake(self.root / way), self._path(way, read), way, read.table, columns, "")
                names = [column.name for column in columns]
                spark.sql(append_upserts(self._path(way, read), "ready", names)).collect()

        self._each(one, ready, PARALLEL)

    def turn(self, name: str, work: Callable[[], Any], keep: bool) -> Any:
        began, used = time.perf_counter(), cpu(self.spark)
        done = work()
        if keep:
            self.took[name].append((time.perf_counter() - began, cpu(self.spark) - used))
        return done

    def _path(self, way: str, read: TableRead) -> str:
        return Lake(self.root / way).path(read.table.database, read.table.table)

    def _merge(self, way: str, read: TableRead) -> str:
        names = [name for name in read.schema.names if name != OP]
        return merge_keyed(
            self._path(way, read),
            "ready",
            names,
            read.table.primary_key,
            deletes=bool(read.counts.deletes),
        )

    def _each(self, work: Callable[[Any, Any], None], ready: Ready, parallel: int) -> None:
        def run(item: Any) -> None:
            with self.sessions.take() as spark:
                work(spark, item)

        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(run, ready))


def cpu(process: psutil.Process) -> float:
    """CPU seconds of a process and all below it, also of those that have ended and were waited for."""
    used = 0.0
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            used += sum(one.cpu_times()[:4])
    return used


def measure(
    ways: Ways, shop: Shop, total: int, batch_size: int, rounds: int, plain: bool, *, single: bool = False
) -> int:
    """All ways over the same changes, round by round; the first round warms, with a tenth of them where each is a
    transaction, and is not kept. Batches of our last."""
    drained = 0
    for number in range(rounds + 1):
        changes = total // 10 if single and not number else total
        each = changes // TABLES
        inserts, deletes = each * (2 if single else 3) // 10, each // 5
        (shop.operate if single else shop.change)(inserts, each - inserts - deletes, deletes)
        ready = ways.ready(changes, plain)

        turns: dict[str, Callable[[], Any]] = {
            "ours": partial(ways.ours, batch_size),
            "bare": partial(ways.bare, ready),
        }
        if plain:
            turns["plain"] = partial(ways.plain, ready)
        for name in list(turns)[:: 1 if number % 2 else -1]:
            done = ways.turn(name, turns[name], keep=number > 0)
            drained = done if name == "ours" else drained
    return drained


def line(name: str, ways: Ways, peer: str, what: str, config: dict[str, Any]) -> None:
    ours, theirs = ways.took["ours"], ways.took[peer]
    value, other = (statistics.median(seconds for seconds, _ in took) for took in (ours, theirs))
    told = {"name": name, "value": round(value, 2), "unit": "s", "peer": what, "peer_value": round(other, 2)}
    spread = {"ours": [round(s, 2) for s, _ in ours], "theirs": [round(s, 2) for s, _ in theirs]}
    used = {"spark_cpu_seconds": [round(statistics.median(c for _, c in took), 1) for took in (ours, theirs)]}
    loads = {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count(), "side_by_side": PARALLEL, "tables": TABLES}
    print(json.dumps(told | {"ratio": round(other / value, 3), "config": config | loads | used | spread}), flush=True)


@contextmanager
def arena(
    mysql: MySqlServer, spark: SparkConnect, root: Path, rows: int, store_bytes: int = 0
) -> Iterator[tuple[Ways, Shop]]:
    """A source with `rows` in each table, and lakes that have them. With `store_bytes` the store is on disk, and the
    ring as small as it ships; without, the ring holds a backlog."""
    start = mysql.position()
    shop = Shop(mysql, rows, wide=bool(store_bytes))
    ring = {} if store_bytes else {"canal__instance__memory__buffer__size": RING_MB << 10}
    with serving(mysql, start, sluice__store__bytes=store_bytes, **ring) as service:
        address = f"http://127.0.0.1:{service.http}"
        rows_at = f"grpc://127.0.0.1:{service.flight}"
        with Connector(address, "bench", flight_url=rows_at) as connector, Sessions(spark.remote) as sessions:
            assert spark.pid is not None
            ways = Ways(service, connector, sessions, psutil.Process(spark.pid), root)
            ways.fill(rows * TABLES)
            yield ways, shop


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", choices=["ten", "backlog", "ops"], default=None)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as scratch:
        mysql = MySqlServer("8.0.31", Path(scratch) / "mysql", **OPTIONS).start()
        spark = SparkConnect(Path(scratch) / "spark", free_port(), driver_memory="4g").start()
        try:
            if given.only in (None, "ten"):
                ten_tables(mysql, spark, Path(scratch) / "ten", given.scale, given.rounds)
            if given.only in (None, "backlog"):
                backlog(mysql, spark, Path(scratch) / "backlog", given.scale)
            if given.only in (None, "ops"):
                operations(mysql, spark, Path(scratch) / "ops", given.scale)
        finally:
            spark.stop()
            mysql.stop()


def ten_tables(mysql: MySqlServer, spark: SparkConnect, root: Path, scale: float, rounds: int) -> None:
    rows, total = int(100_000 * scale), int(100_000 * scale)
    with arena(mysql, spark, root, rows) as (ways, shop):
        measure(ways, shop, total, total, rounds, plain=True)
        config = {"changes": total, "rows_a_table": rows}
        line("merge_ten_tables", ways, "bare", "the same bare MERGEs over Parquet", config)
        line("merge_plain_way", ways, "plain", "dictionaries, createDataFrame, one after the other", config)


def backlog(mysql: MySqlServer, spark: SparkConnect, root: Path, scale: float) -> None:
    """Drained in claims as large as a run takes, against the bare MERGEs of the whole."""
    rows, total = int(400_000 * scale), int(2_000_000 * scale)
    with arena(mysql, spark, root, rows) as (ways, shop):
        batches = measure(ways, shop, total, Limits().batch_size, 2, plain=False)
        config = {"changes": total, "rows_a_table": rows, "claims": batches, "ring_mb": RING_MB}
        line("merge_backlog", ways, "bare", "the same bare MERGEs over Parquet, of the whole", config)


def operations(mysql: MySqlServer, spark: SparkConnect, root: Path, scale: float) -> None:
    """Transactions of one row each, in tables of thirteen columns. A fifth inserts, three fifths updates, a fifth
    deletes. The store is the shipped one, on disk. Each way goes first once: it compiles more code than the other."""
    rows, total = int(250_000 * scale), int(2_000_000 * scale)
    with arena(mysql, spark, root, rows, _STORE) as (ways, shop):
        batches = measure(ways, shop, total, Limits().batch_size, 2, plain=False, single=True)
        config = {"transactions": total, "rows_a_table": rows, "claims": batches, "store_gb": _STORE >> 30}
        line("backlog_ops", ways, "bare", "the bare MERGEs of the net changes over Parquet", config)


if __name__ == "__main__":
    main()
