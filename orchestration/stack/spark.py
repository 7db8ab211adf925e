"""The stack's Spark Connect server: the one of `spark_jobs`, kept and guarded like the other processes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from orchestration.stack.artifacts import artifacts_dir, locked
from orchestration.stack.home import Notify, quiet
from orchestration.stack.prerequisites import need_java
from orchestration.stack.process import forget, watch
from spark_jobs import connect_server
from spark_jobs.connect_server import SparkSettings


class SparkConnect:
    """`remote` is what a client's SPARK_REMOTE names."""

    def __init__(
        self,
        directory: Path,
        port: int,
        notify: Notify = quiet,
        *,
        master: str = "local[*]",
        driver_memory: str = "2g",
        conf: dict[str, str] | None = None,
    ) -> None:
        need_java(notify)
        self._notify = notify
        self._child: subprocess.Popen[bytes] | None = None
        self.settings = SparkSettings(
            port=port,
            delta_jars=delta_jars(notify),
            directory=directory,
            master=master,
            driver_memory=driver_memory,
            conf=conf or {},
        )

    def __repr__(self) -> str:
        return f"<SparkConnect {'running' if self.running else 'stopped'} {self.remote}>"

    @property
    def remote(self) -> str:
        return self.settings.remote

    @property
    def log(self) -> Path:
        return self.settings.log_file

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self.running else None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> Self:
        if not self.running:
            self.settings.directory.mkdir(parents=True, exist_ok=True)
            self._child = connect_server.start(self.settings, self._notify)
            watch(self._child.pid)
        return self

    def stop(self) -> None:
        if self._child is not None:
            connect_server.stop(self._child)
            forget(self._child.pid)

    def kill(self) -> None:
        """As a crash."""
        if self._child is not None and self.running:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            forget(self._child.pid)


def delta_jars(notify: Notify = quiet) -> Path:
    """The directory with Delta's jars for the installed pyspark, filled once."""
    _, artifact, revision = connect_server.delta_artifact().split(":")
    directory = artifacts_dir() / f"{artifact}-{revision}"
    with locked(directory):
        return connect_server.resolve_delta_jars(directory, notify)
