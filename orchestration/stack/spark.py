"""A Spark Connect server with Delta, on the loopback address, for programs of the same user: others have no token."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Self

from cdc_core.errors import LakeError
from orchestration.stack.classes import class_archive
from orchestration.stack.delta import delta_jars
from orchestration.stack.metastore import make_ready
from orchestration.stack.ports import listening
from orchestration.stack.prerequisites import need_java
from orchestration.stack.process import Process
from orchestration.stack.progress import Notify, quiet
from spark_jobs.connect_server import SparkSettings, command, environment
from spark_jobs.local_token import new_token, publish, withdraw

SPARK_PORT = 15002  # where programs look for a Spark Connect server that is not named


class SparkConnect(Process):
    """Ready when it answers SQL. `remote` is what SPARK_REMOTE names; `scratch` is for what need not last. With a
    `metastore`, a directory, names of tables and views last; otherwise they end with the server."""

    def __init__(
        self,
        directory: Path,
        port: int,
        notify: Notify = quiet,
        *,
        master: str = "local[*]",
        driver_memory: str = "2g",
        conf: dict[str, str] | None = None,
        metastore: Path | None = None,
        grace: float = 10,
    ) -> None:
        need_java(notify)
        self._token = new_token()
        jars = delta_jars(notify)
        settings = SparkSettings(
            port,
            jars,
            directory,
            master,
            driver_memory,
            metastore=metastore,
            token=self._token,
            classes=class_archive(jars),
            conf=conf or {},
        )
        self.scratch = directory / "scratch"
        for part in (directory / "warehouse", self.scratch):
            part.mkdir(parents=True, exist_ok=True)
        self.remote = settings.remote
        self._port = port
        self._metastore = metastore
        super().__init__(
            "the Spark Connect server",
            command(settings),
            log=directory / "spark-connect.log",
            ready=self._answers,
            environment=environment(settings),
            directory=directory,
            timeout=120,
            grace=grace,
        )

    def start(self) -> Self:
        if self._metastore is not None:
            make_ready(self._metastore)
        if not listening(self._port):  # otherwise it runs, and the start is refused
            self._empty_scratch()
        publish(self._port, self._token)
        return super().start()

    def _empty_scratch(self) -> None:
        """Removes what a server left that was killed. One that is stopped removes it by itself."""
        for left in self.scratch.iterdir():
            shutil.rmtree(left, ignore_errors=True)

    def stop(self) -> None:
        super().stop()
        withdraw(self._port)

    def _answers(self) -> bool:
        if not listening(self._port):
            return False
        from spark_jobs.session import Sessions  # loads all of pyspark

        with suppress(LakeError), Sessions(self.remote) as sessions, sessions.take() as spark:
            spark.sql("SELECT 1").collect()
            return True
        return False
