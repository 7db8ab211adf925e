"""One Spark Connect server for all processes of a test run: what it compiles for one of them, the others need not."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from cdc_core.errors import LakeError
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.session import Sessions
from tests.support.waiting import until

_JAVA = (  # it lives long enough for Java's second compiler, but not for the dearest passes of it
    "-XX:TieredStopAtLevel=4",
    "-XX:FreqInlineSize=100",
    "-XX:InlineSmallCode=1000",
    "-XX:LoopUnrollLimit=0",
    "-XX:-DoEscapeAnalysis",
    "-XX:-UseSuperWord",
    "-XX:ReservedCodeCacheSize=512m",  # of thousands of statements
)

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Tests' statements have few rows: to compile them takes a seventh of its CPU time."""


class SharedSpark:
    """Started by the process that hands out the tests, while the others still read them."""

    def __init__(self, *, interpreted: bool) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="sluice-spark-", ignore_cleanup_errors=True)
        self.directory = Path(self._directory.name)
        conf = {"spark.driver.defaultJavaOptions": " ".join(_JAVA)}
        conf |= _INTERPRETED if interpreted else {}
        self._server = SparkConnect(self.directory, free_port(), driver_memory="3g", conf=conf)
        self._starter = threading.Thread(target=self._server.start)
        self._starter.start()

    @property
    def remote(self) -> str:
        return self._server.remote

    def stop(self) -> None:
        self._starter.join()
        self._server.kill()
        self._directory.cleanup()


def wait_for(remote: str) -> None:
    """Returns when the server, which another process starts, answers."""

    def answers() -> bool:
        try:
            with Sessions(remote) as sessions, sessions.take() as spark:
                spark.sql("SELECT 1").collect()
        except LakeError:
            return False
        return True

    until(answers)
