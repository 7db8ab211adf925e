"""A table compared with the source by checksums, beside reading it by JDBC; then 1,000 damaged rows of it repaired.

`audit`: seconds of the comparison of equal tables, whole; the peer reads the rows with Spark's JDBC reader, as many
connections, and drops them. `repair`: seconds of a comparison that finds the damaged rows and brings them right, while
500 rows/s are written and runs drain. The first rounds are of a small table, and load what each way needs.
`SLUICE_BENCH_ROWS` is the number of rows without `--rows`.

    python -m tests.bench.bench_audit [--rows 10000000]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cdc_core.client.connector import Connector
from orchestration.stack.delta import delta_jars
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.spark import SparkConnect
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.sql import quote
from spark_jobs.load.reader import Manner
from spark_jobs.session import Sessions
from spark_jobs.snapshot.limits import Limits
from spark_jobs.verify.candidates import CONNECTIONS
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.verify.repair import RowRepair
from tests.bench.bench_merge import RING_MB
from tests.bench.bench_service import OPTIONS, report, serving
from tests.bench.bench_snapshot import PER_SECOND, WARM, Arena, connector_jar, fill, written
from tests.support.servers import free_port
from tests.support.threads import Over, beside

DAMAGED = 1_000
PEER = "spark.read.jdbc, Connector/J streaming, rows dropped"


def by_jdbc(arena: Arena) -> float:
    """Seconds in which Spark reads the rows."""
    source, began = arena.source, time.perf_counter()
    options = {
        "url": f"jdbc:mysql://{source.address}/{arena.database}?useSSL=false&allowPublicKeyRetrieval=true",
        "user": source.user, "password": source.password, "dbtable": "t",
        "driver": "com.mysql.cj.jdbc.Driver", "fetchsize": str(-(1 << 31)), "partitionColumn": "id",
        "lowerBound": "0", "upperBound": str(arena.rows), "numPartitions": str(CONNECTIONS),
    }  # fmt: skip
    with arena.sessions.take() as spark:
        spark.read.format("jdbc").options(**options).load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def damaged(arena: Arena) -> None:
    """A part of the rows is deleted, changed, or another one."""
    step = max(1, arena.rows // DAMAGED)
    chosen, table = f"id % {step} = 0 AND id < {step * DAMAGED}", f"delta.{quote(arena.lake.path(arena.database, 't'))}"
    with arena.sessions.take() as spark:
        spark.sql(f"DELETE FROM {table} WHERE {chosen} AND id % {2 * step} = 0").collect()
        spark.sql(f"UPDATE {table} SET note = 'damaged' WHERE {chosen}").collect()


def looked_at(arena: Arena, *, repair: bool) -> tuple[float, int]:
    """Seconds, and rows repaired. Nothing differs in the end."""
    began = time.perf_counter()
    there = TableComparer(arena.connector, arena.source, arena.lake, 600)
    if repair:
        there = TableComparer(arena.connector, arena.source, arena.lake, 600, RowRepair(arena.sessions).of)
    found = there.table(arena.database, "t")
    assert found is not None
    assert not found.differences, found
    return time.perf_counter() - began, found.repaired


@contextmanager
def streaming(arena: Arena) -> Iterator[None]:
    """The source is written, and runs drain."""

    def drain(over: Over) -> None:
        lake = SparkLake(arena.connector, arena.lake, arena.sessions, "", Fence(arena.lake, arena.sessions))
        while not over(0.5):
            arena.batch(lake)

    with written(arena.mysql, arena.database, arena.rows), beside(drain):
        yield


def measure(arena: Arena) -> None:
    arena.ours()
    arena.drain()
    audit, _ = looked_at(arena, repair=False)
    peer = by_jdbc(arena)
    damaged(arena)
    with streaming(arena):
        repair, rows = looked_at(arena, repair=True)
    arena.drain()
    looked_at(arena, repair=False)
    if arena.database == "warm":
        return
    told: dict[str, Any] = {"rows": arena.rows, "connections": CONNECTIONS, "load": round(os.getloadavg()[0], 1)}
    tell("audit", audit, told | {"limit_of_peers_time": 0.25, "of_peers_time": round(audit / peer, 3)}, peer)
    told |= {"repaired": rows, "written_meanwhile": PER_SECOND, "limit_seconds": 60}
    report("repair", repair, "s", told)


def tell(name: str, seconds: float, told: dict[str, Any], peer: float) -> None:
    """As `report`, but of a time: the ratio is the peer's by ours."""
    line = {"name": name, "value": round(seconds, 2), "unit": "s", "peer": PEER, "peer_value": round(peer, 2)}
    more = {"ratio": round(peer / seconds, 3), "config": told | {"cores": os.cpu_count()}}
    print(json.dumps(line | more), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=int(os.environ.get("SLUICE_BENCH_ROWS", "10000000")))
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-audit-") as scratch:
        root = Path(scratch)
        jars = {"spark.driver.extraClassPath": f"{delta_jars()}/*:{connector_jar()}"}
        mysql = MySqlServer("8.0.31", root / "mysql", **OPTIONS).start()
        spark = SparkConnect(root / "spark", free_port(), driver_memory="4g", conf=jars)
        try:
            fill(mysql, given.rows)
            spark.start()
            assert spark.pid is not None
            for database, rows in (("warm", min(WARM, given.rows)), ("bench", given.rows)):
                settings = {
                    "canal__instance__filter__regex": rf"{database}\\..*",
                    "canal__instance__memory__buffer__size": RING_MB << 10,
                }
                with (
                    serving(mysql, mysql.position(), **settings) as service,
                    Connector(
                        f"http://127.0.0.1:{service.http}", "bench", flight_url=f"grpc://127.0.0.1:{service.flight}"
                    ) as connector,
                    Sessions(spark.remote) as sessions,
                    tempfile.TemporaryDirectory(dir=root) as place,
                ):
                    service.until_warm()
                    process, manner = psutil.Process(spark.pid), Manner(limits=Limits(connections=CONNECTIONS))
                    measure(Arena(mysql, service, connector, sessions, process, Path(place), database, rows, manner))
        finally:
            spark.stop()
            mysql.stop()


if __name__ == "__main__":
    main()
