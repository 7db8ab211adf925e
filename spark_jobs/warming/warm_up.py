"""Applies made-up claims to tables of a scratch folder, by the code that applies a source's.

A JVM that has just started loads classes, compiles code and starts Python workers during its first statements, so the
first batch takes several times what a later one does. Nothing here is promised: a warm-up may be ended at any time, and
its failure harms nothing but the first batch's time. It touches no lake: its tables are in its own folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import LakeError
from spark_jobs.apply.batch import apply_batch
from spark_jobs.apply.table import Batch
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.warming.rows import Door, claim_of
from spark_jobs.write.order import Engine

_ROWS = 200  # of a claim
_TABLES, _MERGES = 3, 1  # one after the other, and merges of each


class _Interruptible(Sessions):
    """Sessions that lend nothing any more once they are ended."""

    def __init__(self, remote: str) -> None:
        super().__init__(remote)
        self.ended = False
        self._lent: set[SparkSession] = set()

    @contextmanager
    def take(self) -> Iterator[SparkSession]:
        with super().take() as spark:
            self._lent.add(spark)  # first: who ends it meanwhile either finds the session here or is seen below
            try:
                if self.ended:
                    raise LakeError("the warm-up was ended", hint="No action needed.")
                yield spark
            finally:
                self._lent.discard(spark)

    def end(self) -> None:
        self.ended = True
        for spark in tuple(self._lent):
            with suppress(PySparkException, grpc.RpcError):
                spark.interruptAll()


class WarmUp:
    """One warm-up of the Spark server at `remote`, by as many `tables`. The `folder` is its own."""

    def __init__(self, remote: str, folder: Path, tables: int = _TABLES) -> None:
        self._tables = tables
        self._folder = folder
        self._sessions = _Interruptible(remote)

    def run(self) -> None:
        """Makes each table and fills it, by rows that Spark's workers pull; then merges rows that are sent along, as
        small batches are. Spark compiles code for each, as for a table that it has not seen. The folder is gone
        afterwards.

        Raises the error of ours for what went wrong; a LakeError when it was ended.
        """
        shutil.rmtree(self._folder, ignore_errors=True)  # of one that was killed
        door = Door()
        try:
            with self._sessions as sessions:
                self._apply(sessions, door)
        finally:
            door.shutdown()
            shutil.rmtree(self._folder, ignore_errors=True)

    def end(self) -> None:
        """What runs is interrupted, and nothing more is begun. A statement that begins at this moment may go on: call
        it again until `run` has returned."""
        self._sessions.end()

    def _apply(self, sessions: Sessions, door: Door) -> None:
        lake = Lake(self._folder)
        fence = Fence(lake, sessions)
        for number in range(self._tables * (1 + _MERGES)):
            table, merge = divmod(number, 1 + _MERGES)
            counts = (_ROWS // 2, _ROWS // 4, _ROWS // 4) if merge else (_ROWS, 0, 0)
            claim = claim_of(number + 1, table, *counts)
            door.offer(claim)
            batch = Batch(claim, lake, sessions, RowsDoor(door.url), fence, engine=Engine.SQL)
            for refusal in apply_batch(batch).refused:
                raise refusal.error
