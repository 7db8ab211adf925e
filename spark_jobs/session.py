"""Sessions on a Spark Connect server: one for each table that is merged at the same time.

Delta's txnAppId and txnVersion are settings of a session, so tables merged side by side need a session each. A server
that is down is a LakeError after seconds; Spark itself would retry for ten minutes.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from spark_jobs.local_token import with_local_token
from spark_jobs.source import SluiceSource
from spark_jobs.stores import check_spark

_MOST_CORES = 64  # tables are prepared by as many threads of one process
_GONE = ("SESSION_NOT_FOUND", "SESSION_CLOSED", "SESSION_CHANGED", "INVALID_HANDLE", "UNAVAILABLE")


def connect(remote: str, token: str = "", root: str = "") -> SparkSession:
    """A new session that knows the data source `sluice`. `remote` is an `sc://` address, `root` the lake that is to be
    written. A server that the stack has started on this machine needs no `token`: it is known.

    Raises LakeError when no server answers, or one that would lose commits in the lake's store.
    """
    given = f"{remote.rstrip('/;')}{'' if '/;' in remote else '/'};token={token}" if token else remote
    local = with_local_token(remote)
    try:
        builder = SparkSession.builder
        builder = builder.channelBuilder(_Loopback(local)) if local else builder.remote(given)
        spark = builder.create()
        try:
            _prepare(spark, root)
        except BaseException:
            spark.client.close()  # it would ask the server again when the process exits
            raise
    except (PySparkException, grpc.RpcError) as error:
        raise server_away(remote) from error
    return spark


def _prepare(spark: SparkSession, root: str) -> None:
    spark.client.set_retry_policies([DefaultPolicy(max_retries=4)])
    spark.conf.set("spark.sql.variable.substitute", "false")  # names, comments and defaults may have ${...}
    spark.conf.set("spark.sql.caseSensitive", "true")  # dotless i is another letter
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")  # a MERGE reads its source more than once
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # INT96 is read as nanoseconds
    spark.dataSource.register(SluiceSource)
    check_spark(root, lambda key, default: spark.conf.get(key, default) or default)


class _Loopback(DefaultChannelBuilder):
    """A channel to `sc://localhost`, for which Spark sends a token without TLS. It goes to 127.0.0.1, where the server
    is: the name also means ::1, where anybody may listen for the token."""

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._port}"


def disconnect(spark: SparkSession) -> None:
    """Ends the session at the server, if it is still there."""
    with suppress(PySparkException, grpc.RpcError):
        spark.stop()


def server_away(remote: str) -> LakeError:
    """The error for a server that does not answer."""
    hint = "Start the Spark Connect server, or name one that runs in SPARK_REMOTE; the batch stays claimable."
    address = remote.partition("/;")[0]  # what follows may hold a token
    return LakeError("the Spark Connect server does not answer", place=address, hint=hint)


def is_gone(error: BaseException) -> bool:
    """Whether the error says that the server or the session is no longer there."""
    if isinstance(error, grpc.RpcError):
        return True
    text = str(error)
    in_worker = "Traceback (most recent call last)" in text  # what a worker read from was away, and Spark answered
    return isinstance(error, PySparkException) and not in_worker and any(word in text for word in _GONE)


def slots(spark: SparkSession) -> int:
    """Returns how many tasks the server's executors run at a time: Spark cuts a range into as many parts by default."""
    parts = "SELECT max(part) + 1 FROM (SELECT spark_partition_id() AS part FROM range(10000))"
    return int(spark.sql(parts).collect()[0][0])


def cores(spark: SparkSession) -> int:
    """Returns how many tables of a run go side by side: as many as `slots`, 64 at most."""
    return min(slots(spark), _MOST_CORES)


class Sessions:
    """A pool of sessions: made when they are needed, kept for the next batch. `root`: the lake that they write. Safe to
    use from several threads."""

    def __init__(self, remote: str, token: str = "", root: str = "") -> None:
        self.remote, self.root = remote, root
        self._token = token
        self._idle: queue.LifoQueue[SparkSession] = queue.LifoQueue()

    def __repr__(self) -> str:
        return f"<Sessions remote={self.remote.partition('/;')[0]} idle={self._idle.qsize()}>"

    @contextmanager
    def take(self) -> Iterator[SparkSession]:
        """Lends a session to one thread. A session that met an error is ended.

        Raises LakeError when the server went away meanwhile.
        """
        spark = self._next()
        try:
            yield spark
        except BaseException as error:
            disconnect(spark)
            if is_gone(error):
                raise server_away(self.remote) from error
            raise
        self._idle.put(spark)

    def cores(self) -> int:
        """Returns the same. Raises LakeError when the server is down."""
        with self.take() as spark:
            return cores(spark)

    def _next(self) -> SparkSession:
        """An idle session that still answers, or a new one."""
        while True:
            try:
                spark = self._idle.get_nowait()
            except queue.Empty:
                return connect(self.remote, self._token, self.root)
            with suppress(PySparkException, grpc.RpcError):
                spark.conf.get("spark.sql.session.timeZone")
                return spark

    def close(self) -> None:
        while True:
            try:
                disconnect(self._idle.get_nowait())
            except queue.Empty:
                return

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
