"""Shares of a table that Spark's tasks read and write: on a local server, and on a cluster that loses an executor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from cdc_core.errors import LakeError, SchemaError, SluiceError, SourceError, SourceUnavailable
from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from orchestration.stack.delta import delta_jars
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.spark import SparkConnect
from spark_jobs.lake.tables import Lake
from spark_jobs.load import groups
from spark_jobs.load.executors import _task, is_cluster, on_executors
from spark_jobs.load.files import StagedFile, staged_schema
from spark_jobs.load.groups import CopyTask, Reading, _shares, stage_groups
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.session import Sessions
from spark_jobs.snapshot.chunk import Chunk
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.source import Source
from tests.support.servers import free_port

pytestmark = pytest.mark.integration

ROWS = 300
SECRET = "geheim-44"


@pytest.fixture
def table(mysql8: MySqlServer) -> Iterator[TableSchema]:
    """A table of 300 rows."""
    with mysql8.database() as database:
        rows = ", ".join(f"({number}, 'row {number}', '2024-05-06 07:08:09.123')" for number in range(ROWS))
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, `a,b` VARCHAR(20), at DATETIME(3))", database=database)
        mysql8.execute(f"INSERT INTO t VALUES {rows}", database=database)
        with mysql8.root() as connection:
            found = definition(connection, database, "t")
        assert found is not None
        yield found


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(Lake(tmp_path / "lake"), "shop", "5f1c")


def reading(server: MySqlServer, schema: TableSchema, rate: float | None = None) -> Reading:
    """Chunks of 20 rows, over three connections."""
    source = Source(server.host, server.port, server.user, server.password)
    return Reading(source, schema, "fail", Limits(rate, 3), 20)


def shares(read: Reading, staging: Staging) -> list[CopyTask]:
    """Of four chunks, whose staging table is there."""
    staging.table(staged_schema(read.schema))
    bounds = [None, ("70",), ("150",), ("220",), None]
    return _shares(read, staging, [Chunk(n, bounds[n], bounds[n + 1]) for n in range(4)])


def ids(staging: Staging) -> list[int]:
    return sorted(staging.lake.open(staging.path).to_pyarrow_table(columns=["0"])["0"].to_pylist())


def test_a_task_that_runs_twice_counts_once(mysql8: MySqlServer, table: TableSchema, staging: Staging) -> None:
    """Each attempt, on a machine of its own, writes other files; those of the reported attempt are committed."""
    task = cloudpickle.dumps(_task(shares(reading(mysql8, table), staging)))
    opened, numbers = staging.table(staged_schema(table)), pa.record_batch({"id": [0, 1, 2]})
    told = []
    for _ in range(2):
        rows = pa.Table.from_batches(cloudpickle.loads(task)(iter([numbers]))).to_pylist()
        told.append([StagedFile(one["path"], one["size"], one["rows"], one["stats"]) for one in rows])
    first, second = told
    assert not {one.path for one in first} & {one.path for one in second}
    staging.commit(opened, second, Groups().then([Chunk(0)]))
    assert ids(staging) == list(range(ROWS))
    staging.remove()
    assert not [one for one in Path(staging.path).rglob("*") if one.is_file()]


def test_spark_writes_what_the_driver_commits(
    mysql8: MySqlServer, table: TableSchema, staging: Staging, spark_remote: str
) -> None:
    """All groups, and errors of their own kind, with what helps; the password is in no error."""
    good = reading(mysql8, table)
    with Sessions(spark_remote) as sessions:
        assert not is_cluster(sessions)
        stage_groups(good, staging, lambda _: None, partial(on_executors, sessions))
        assert ids(staging) == list(range(ROWS))

        def refused(kind: type[SluiceError], read: Reading, path: str = "") -> str:
            parts = [replace(one, path=path or one.path) for one in shares(read, staging)]
            with pytest.raises(kind) as caught:
                on_executors(sessions, parts)
            assert SECRET not in str(caught.value)
            return f"{caught.value}"

        lost = replace(good.source, port=9, password=SECRET)
        refused(SourceUnavailable, replace(good, source=lost))
        assert "--read-on driver" in refused(LakeError, good, f"{staging.path}/away")
        mysql8.execute(f"ALTER TABLE {table.name} DROP `a,b`, ADD `a,b` BIGINT")
        refused(SchemaError, good)
        mysql8.execute(f"DROP TABLE {table.name}")
        assert "read the table again" in refused(SourceError, good)


def test_files_that_are_not_here_are_reported(
    mysql8: MySqlServer, table: TableSchema, staging: Staging, monkeypatch: pytest.MonkeyPatch, spark_remote: str
) -> None:
    """Executors that have a folder of the same name on another disk: nothing is committed."""
    parts = shares(reading(mysql8, table), staging)
    monkeypatch.setattr(CopyTask, "__reduce__", lambda self: (_elsewhere, (self.path,)), raising=False)
    with Sessions(spark_remote) as sessions, pytest.raises(LakeError, match="which this process cannot see"):
        on_executors(sessions, parts)


class Elsewhere:
    """A share that is written to another disk."""

    def written(self) -> list[StagedFile]:
        return [StagedFile("1.parquet", 10, 1, "{}")]


def _elsewhere(_: str) -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkConnect]:
    """Two workers, each with an executor in a process of its own."""
    conf = {"spark.executor.extraClassPath": f"{delta_jars()}/*", "spark.executor.memory": "512m"}
    spark = SparkConnect(tmp_path / "spark", free_port(), master="local-cluster[2,2,1024]", conf=conf).start()
    try:
        yield spark
    finally:
        spark.stop()


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_a_cluster_that_loses_an_executor_reads_all_rows_once(
    mysql8: MySqlServer, table: TableSchema, staging: Staging, cluster: SparkConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks are run again by another one. A cluster's executors read by themselves, nobody needs to say so."""
    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1000)
    with Sessions(cluster.remote) as sessions, ThreadPoolExecutor(1) as pool:
        assert is_cluster(sessions)
        killed = pool.submit(kill_a_reader, cluster)
        stage_groups(reading(mysql8, table, rate=20), staging, lambda _: None, partial(on_executors, sessions))
        killed.result()
    assert ids(staging) == list(range(ROWS))


def kill_a_reader(cluster: SparkConnect) -> None:
    """Kills the first executor that has begun a task."""
    assert cluster.pid is not None
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for process in psutil.Process(cluster.pid).children(recursive=True):
            with suppress(psutil.Error):
                executor = "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
                if executor and len(process.children(recursive=True)) > 1:  # a daemon and its workers
                    process.kill()
                    return
        time.sleep(0.05)
    raise AssertionError("no executor has begun a task")
