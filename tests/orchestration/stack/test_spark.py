"""The stack's Spark Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from orchestration.stack.ports import free_port
from orchestration.stack.process import ProcessError
from orchestration.stack.spark import SparkConnect
from spark_jobs.local_token import VARIABLE, with_local_token
from spark_jobs.session import Sessions, connect, disconnect
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration
DAEMON = "spark_jobs.python_daemon"
TABLE = Table("t", pa.schema({"id": pa.int64(), "v": pa.string()}), key=("id",))


def test_a_server_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """With a master that does not exist the server ends: the error has Spark's reason and names the log file."""
    with pytest.raises(ProcessError, match=r"spark-connect.log") as caught:
        SparkConnect(tmp_path, free_port(), master="nonsense").start()

    assert "ended" in caught.value.message
    assert "Master must either be" in caught.value.message


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_what_a_killed_server_left_goes_at_its_next_start(tmp_path: Path) -> None:
    """Files of shuffles, which nobody would ever remove."""
    server = SparkConnect(tmp_path, free_port()).start()
    try:
        spark = connect(server.remote)
        assert len(spark.sql("SELECT id % 3, COUNT(*) FROM range(0, 100, 1, 2) GROUP BY 1").collect()) == 3
        left = {*server.scratch.rglob("shuffle_*")}
        assert left
        server.kill()
        spark.client.close()
        assert left <= {*server.scratch.rglob("*")}
        server.start()
        assert not left & {*server.scratch.rglob("*")}
    finally:
        server.kill()


def test_others_are_refused(spark_remote: str) -> None:
    """Without the token of the server's run, or with another one, nobody gets a session. The product's programs find
    it; so does a program of one's own that is given it."""
    port = urlsplit(spark_remote).port
    for address in (f"sc://localhost:{port}", f"sc://localhost:{port}/;token=guessed"):
        spark = SparkSession.builder.remote(address).create()
        with pytest.raises(PySparkException, match="UNAUTHENTICATED"):
            spark.sql("SELECT 7").collect()
        spark.client.close()  # or it would ask the server at exit, for ten minutes when that is gone

    own = with_local_token(spark_remote)
    assert own
    for spark in (SparkSession.builder.remote(own).create(), connect(spark_remote)):
        assert spark.sql("SELECT 7 AS n").collect()[0].n == 7
        disconnect(spark)


def test_its_ports_are_of_this_machine_and_its_token_is_shown_to_nobody(spark_remote: str) -> None:
    """Every port is on the loopback address. No command line and no log has the token, nor what Spark shows of its
    configuration; the environment of the processes has it, which their user alone can read."""
    port = urlsplit(spark_remote).port
    listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    (pid,) = {one.pid for one in listening if one.laddr.port == port}
    server = psutil.Process(pid)
    family = [server, *server.children(recursive=True)]
    own = {process.pid for process in family}
    assert {one.laddr.ip.removeprefix("::ffff:") for one in listening if one.pid in own} == {"127.0.0.1"}

    token = (with_local_token(spark_remote) or "").partition(";token=")[2]
    assert token
    assert server.environ()[VARIABLE] == token
    assert not any(token in line for line in map(command_line, family))
    assert token not in (Path(server.cwd()) / "spark-connect.log").read_text()
    spark = connect(spark_remote)
    try:
        shown = {row.key: row.value for row in spark.sql("SET -v").collect() + spark.sql("SET").collect()}
    finally:
        disconnect(spark)
    assert shown["spark.authenticate"] == "true"
    assert token not in str(shown)


def test_a_new_python_worker_has_imported_what_small_tables_need(spark_remote: str) -> None:
    """Its daemon has. Spark ends workers after a quiet minute, and the next batch would wait for the imports."""
    spark = connect(spark_remote)
    try:
        workers = spark.range(0, 2, 1, 2).mapInArrow(begun, "pid long, had boolean").toArrow().to_pylist()
    finally:
        disconnect(spark)
    for worker in workers:
        assert worker["had"]
        assert DAEMON in psutil.Process(worker["pid"]).cmdline()


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_sessions_share_their_python_workers(tmp_path: Path) -> None:
    """The daemons that the first session started serve all others, when it has ended too. Nothing piles up where rows
    are pulled: pools that read the service's rows, one after the other, some of them without success, are served by the
    daemons of the first ones, whose number does not grow when the pools are closed either."""
    server = SparkConnect(tmp_path, free_port()).start()
    try:
        shared = []
        for _ in range(4):
            spark = connect(server.remote)
            assert spark.range(3).mapInArrow(same, "id long").count() == 3
            disconnect(spark)
            shared.append(daemons(server))
        with feed() as service:
            service.put(TABLE, [Change(n, None, (n, "v")) for n in range(1, 101)])
            service.claim(1, 0, 100)
            pulled = []
            for number in range(24):
                with Sessions(server.remote) as sessions:
                    pull(sessions, service.url, fails=number % 8 == 5)
                pulled.append(daemons(server))
    finally:
        server.kill()
    assert shared[0]
    assert shared == [shared[0]] * 4
    assert pulled[7]
    assert pulled[8:] == [pulled[7]] * 16


def pull(sessions: Sessions, url: str, *, fails: bool) -> None:
    """Reads a claim's rows; or one that the service does not have."""
    options = {"url": url, "destination": "d", "client_id": "1", "batch_id": "2" if fails else "1", "table": "shop.t"}
    with suppress(PySparkException, LakeError), sessions.take() as spark:
        assert spark.read.format("sluice").options(**options, splits="2").load().count() == 100
        return
    assert fails


def command_line(process: psutil.Process) -> str:
    """Of a process that may end meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def begun(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The worker of each task, and whether it had its modules when the task began."""
    import gc
    import os
    import sys

    had = "spark_jobs.write.small_table" in sys.modules and gc.get_freeze_count() > 0
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"pid": os.getpid(), "had": had}])


def daemons(server: SparkConnect) -> set[int]:
    """The processes of Spark's Python daemons, without the workers that they forked."""
    parents = {}
    for process in psutil.Process(server.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if not {"pyspark.daemon", DAEMON}.isdisjoint(process.cmdline()):
                parents[process.pid] = process.ppid()
    return {pid for pid, parent in parents.items() if parent not in parents}
