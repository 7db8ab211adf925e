"""A table of MySQL into Delta, while it is written at 500 rows/s: `sluice snapshot` beside Spark's own JDBC reader.

Ours is the whole way: registered with a service of its own, read in chunks, staged, switched, visible in Delta. Nobody
drains meanwhile. Afterwards the rows that were written are drained, and source and lake compared.
`snapshot`: rows/s. `config` has the CPU seconds of all processes but MySQL's, the rows for each of them, the parts of
our time, and the most memory of the process that reads; Spark's is its heap.

    python -m tests.bench.bench_snapshot [--rows 10000000] [--partitions 4]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from deltalake import DeltaTable

from cdc_core import config
from cdc_core.client.connector import Connector
from orchestration.stack.artifacts import prepare
from orchestration.stack.delta import delta_jars
from orchestration.stack.ivy import Artifact, fetch
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.spark import SparkConnect
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied
from spark_jobs.session import Sessions
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.source import Source
from tests.bench.bench_merge import RING_MB, cpu
from tests.bench.bench_result_set import filled
from tests.bench.bench_service import OPTIONS, Service, report, serving
from tests.support.judge.verify import Reader, verify
from tests.support.servers import free_port

CONNECTOR = Artifact("com.mysql", "mysql-connector-j", "9.4.0")
PER_SECOND = 500  # rows that others write
PEER = "spark.read.jdbc, Connector/J streaming"
WARM = 100_000  # rows of the first round, of a database of its own, which loads what each way needs


@dataclass(frozen=True)
class Took:
    """`parts` are the CPU seconds of each process."""

    seconds: float
    parts: dict[str, float]

    @property
    def cpu(self) -> float:
        return sum(self.parts.values())


@dataclass
class Arena:
    """One table of one source with its service, and a Spark whose server and workers are `process`."""

    mysql: MySqlServer
    service: Service
    connector: Connector
    sessions: Sessions
    process: psutil.Process
    root: Path
    database: str
    rows: int
    manner: Manner
    staged: list[float] = field(default_factory=list)  # when each group was

    @property
    def source(self) -> Source:
        return Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)

    @property
    def lake(self) -> Lake:
        return Lake(self.root / "lake", complete=True)

    def ours(self) -> str:
        instance, _ = config.load_instance(self.service.conf, "bench")
        snapshots = Loader(self.connector, instance, self.lake, self.sessions, self.manner)
        found = snapshots.table(self.database, "t", report=self._told)
        assert isinstance(found, Copied)
        return self.lake.path(self.database, "t")

    def _told(self, _: Read) -> None:
        self.staged.append(time.perf_counter())

    def theirs(self) -> str:
        """Without the driver's least memory: a fetch size of -2**31 streams (Connector/J, "ResultSet")."""
        path, source = str(self.root / "jdbc"), self.source
        options = {
            "url": f"jdbc:mysql://{source.address}/{self.database}?useSSL=false&allowPublicKeyRetrieval=true",
            "user": source.user, "password": source.password, "dbtable": "t",
            "driver": "com.mysql.cj.jdbc.Driver", "fetchsize": str(-(1 << 31)), "partitionColumn": "id",
            "lowerBound": "0", "upperBound": str(self.rows), "numPartitions": str(self.manner.limits.connections),
        }  # fmt: skip
        with self.sessions.take() as spark:
            spark.read.format("jdbc").options(**options).load().write.format("delta").save(path)
        return path

    def timed(self, way: Callable[[], str]) -> Took:
        """The rows are counted when the time is taken."""
        began, used = time.perf_counter(), self._used()
        path = way()
        took = Took(time.perf_counter() - began, {name: now - used[name] for name, now in self._used().items()})
        files = pa.table(DeltaTable(path).get_add_actions(flatten=True))
        assert pc.sum(files["num_records"]).as_py() == self.rows
        return took

    def _used(self) -> dict[str, float]:
        return {"spark": cpu(self.process), "service": self.service.cpu(), "reader": time.process_time()}

    def drain(self) -> int:
        """Until nothing is left. The number of rows."""
        lake, rows = SparkLake(self.connector, self.lake, self.sessions, "", Fence(self.lake, self.sessions)), 0
        while batch := self.batch(lake):
            rows += batch
        return rows

    def batch(self, lake: SparkLake) -> int:
        """One claim, from its claim to its ack. The number of rows, 0 when nothing waits."""
        with self.connector.claim(1_000_000, owner="bench", timeout_seconds=3, lease_seconds=600) as claim:
            if claim is None:
                return 0
            batch = lake.apply(claim, "bench", 1, claim.stopped)
            assert not batch.refused, batch.refused
            lake.note(claim, batch, "bench")
            return claim.rows

    def check_equal(self) -> None:
        """Source and lake, row by row."""
        status = self.connector.client_status
        reader = Reader("bench", self.connector.client_id, status().epoch, lambda: status().cursor)
        (found,) = verify(self.source, [(self.database, "t")], self.lake, reader, timeout_seconds=60)
        counted = found.comparison
        assert counted is not None, found.error
        assert (counted.missing, counted.extra, counted.different) == (0, 0, 0), counted


@contextmanager
def written(mysql: MySqlServer, database: str, rows: int) -> Iterator[None]:
    """The server writes to the table by itself meanwhile, at its pace: each statement waits for its turn."""
    change = f"SET chosen = FLOOR(RAND() * {rows}); UPDATE {database}.t SET n = n + 1 WHERE id = chosen"
    wait = f"DO SLEEP(GREATEST(0, done / {PER_SECOND} - TIMESTAMPDIFF(MICROSECOND, began, SYSDATE(6)) / 1000000))"
    loop = (
        "BEGIN DECLARE done, chosen BIGINT DEFAULT 0; DECLARE began DATETIME(6) DEFAULT SYSDATE(6); "
        f"WHILE TRUE DO {change}; SET done = done + 1; {wait}; END WHILE; END"
    )
    mysql.execute("DROP PROCEDURE IF EXISTS seed.busy", f"CREATE PROCEDURE seed.busy() {loop}")
    with mysql.root() as connection:
        number = connection.thread_id()  # type: ignore[no-untyped-call]

        def run() -> None:
            with suppress(pymysql.MySQLError), connection.cursor() as cursor:
                cursor.execute("CALL seed.busy()")

        writer = threading.Thread(target=run)
        writer.start()
        try:
            yield
        finally:
            mysql.execute(f"KILL {number}")
            writer.join()


class PeakMemory:
    """The most that this process holds from here on, in MB (proc(5), `clear_refs`)."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self._read("VmRSS")

    @property
    def peak(self) -> float:
        return self._read("VmHWM")

    @staticmethod
    def _read(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1000 * 1.024


def connector_jar() -> Path:
    """The jar of MySQL's driver, downloaded once."""
    name = f"{CONNECTOR.name}-{CONNECTOR.revision}"
    return prepare(name, CONNECTOR.jar, lambda directory: fetch(CONNECTOR, directory) and None) / CONNECTOR.jar


def measure(arena: Arena) -> None:
    """Ours, then the peer, then whether ours is right."""
    with written(arena.mysql, arena.database, arena.rows):
        memory, began = PeakMemory(), time.perf_counter()
        ours = arena.timed(arena.ours)
        peak, marks = memory.peak, arena.staged
        theirs = arena.timed(arena.theirs)
    drained = arena.drain()
    arena.check_equal()
    if arena.database == "warm":
        return
    rows = arena.rows
    parts = {"register": marks[0] - began, "stage": marks[-1] - marks[0], "switch": began + ours.seconds - marks[-1]}
    told: dict[str, Any] = {
        "rows": rows, "partitions": arena.manner.limits.connections, "written_meanwhile": PER_SECOND,
        "seconds": {name: round(value, 1) for name, value in parts.items()},
        "cpu_seconds": round(ours.cpu, 1), "cpu_parts": {name: round(part, 1) for name, part in ours.parts.items()},
        "peer_cpu_seconds": round(theirs.cpu, 1),
        "cpu_of_peers": round(ours.cpu / theirs.cpu, 3), "rows_a_cpu_second": round(rows / ours.cpu),
        "peer_rows_a_cpu_second": round(rows / theirs.cpu), "peak_rss_mb": round(peak),
        "rss_before_mb": round(memory.before), "drained_rows": drained, "verify": "equal",
    }  # fmt: skip
    report("snapshot", rows / ours.seconds, "rows/s", told, PEER, rows / theirs.seconds)


def fill(mysql: MySqlServer, rows: int) -> None:
    """`bench.t`, and the first rows of it as `warm.t`."""
    filled(mysql, rows)
    few = f"INSERT INTO warm.t SELECT * FROM bench.t WHERE id < {WARM}"
    mysql.execute("CREATE DATABASE warm", "CREATE TABLE warm.t LIKE bench.t", few)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--partitions", type=int, default=4)
    given = options.parse_args()
    manner = Manner(limits=Limits(connections=given.partitions))
    with tempfile.TemporaryDirectory(prefix="bench-snapshot-") as scratch:
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
                    "canal__instance__memory__buffer__size": RING_MB << 10,  # one claim has all that was written
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
                    process = psutil.Process(spark.pid)
                    measure(Arena(mysql, service, connector, sessions, process, Path(place), database, rows, manner))
        finally:
            spark.stop()
            mysql.stop()


if __name__ == "__main__":
    main()
