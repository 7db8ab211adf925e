"""The stack's Spark Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from cdc_core.errors import LakeError
from orchestration.stack.ports import free_port
from orchestration.stack.process import ProcessError
from orchestration.stack.spark import SparkConnect
from spark_jobs.session import Sessions, connect, disconnect
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration
TABLE = Table("t", pa.schema({"id": pa.int64(), "v": pa.string()}), key=("id",))


def test_a_server_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """With a master that does not exist the server ends: the error has Spark's reason and names the log file."""
    with pytest.raises(ProcessError, match=r"spark-connect.log") as caught:
        SparkConnect(tmp_path, free_port(), master="nonsense").start()

    assert "ended" in caught.value.message
    assert "Master must either be" in caught.value.message


@pytest.mark.full
def test_sessions_share_their_python_workers(tmp_path: Path) -> None:
    """The daemons that the first session started serve all others, when it has ended too."""
    server = SparkConnect(tmp_path, free_port()).start()
    try:
        found = []
        for _ in range(4):
            spark = connect(server.remote)
            assert spark.range(3).mapInArrow(same, "id long").count() == 3
            disconnect(spark)
            found.append(daemons(server))
    finally:
        server.kill()
    assert found[0]
    assert found == [found[0]] * 4


@pytest.mark.full
def test_nothing_piles_up_where_rows_are_pulled(tmp_path: Path) -> None:
    """Pools that read the service's rows, one after the other, some of them without success: the daemons that the
    first ones started serve all, and their number does not grow when the pools are closed either."""
    server = SparkConnect(tmp_path, free_port()).start()
    try:
        with feed() as service:
            service.put(TABLE, [Change(n, None, (n, "v")) for n in range(1, 101)])
            service.claim(1, 0, 100)
            found = []
            for number in range(24):
                with Sessions(server.remote) as sessions:
                    pull(sessions, service.url, fails=number % 8 == 5)
                found.append(daemons(server))
    finally:
        server.kill()
    assert found[7]
    assert found[8:] == [found[7]] * 16


def pull(sessions: Sessions, url: str, *, fails: bool) -> None:
    """Reads a claim's rows; or one that the service does not have."""
    options = {"url": url, "destination": "d", "client_id": "1", "batch_id": "2" if fails else "1", "table": "shop.t"}
    with suppress(PySparkException, LakeError), sessions.take() as spark:
        assert spark.read.format("sluice").options(**options, splits="2").load().count() == 100
        return
    assert fails


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def daemons(server: SparkConnect) -> set[int]:
    """The processes of Spark's Python daemons, without the workers that they forked."""
    parents = {}
    for process in psutil.Process(server.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "pyspark.daemon" in process.cmdline():
                parents[process.pid] = process.ppid()
    return {pid for pid, parent in parents.items() if parent not in parents}
