"""The stack's Spark Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from orchestration.stack.ports import free_port
from orchestration.stack.process import ProcessError
from orchestration.stack.spark import SparkConnect
from spark_jobs.session import connect, disconnect

pytestmark = pytest.mark.integration


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
