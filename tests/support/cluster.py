"""A Spark standalone cluster on the loopback addresses: a master, two workers with an executor each, and the driver
that serves Spark Connect. Driver and executors have an installation of this project, and no checkout on their path."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil
import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from orchestration.stack.delta import delta_jars
from orchestration.stack.home import PROJECT
from orchestration.stack.ports import free_port, listening
from orchestration.stack.process import Process
from spark_jobs.connect_server import SparkSettings, command, spark_home
from spark_jobs.session import Sessions
from tests.support.s3a import s3a_jars
from tests.support.waiting import until

HOSTS = ("127.0.0.2", "127.0.0.3")
_S3A = {
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_REGION": "endpoint.region",
    "AWS_ACCESS_KEY_ID": "access.key",
    "AWS_SECRET_ACCESS_KEY": "secret.key",
}
_S3A_CONF = {"path.style.access": "true", "connection.ssl.enabled": "false", "performance.flags": "create"}


class Cluster:
    """`remote` is what SPARK_REMOTE names. The executors' processes have `variables`, and none of ours that name a
    store or a service."""

    def __init__(self, directory: Path, variables: Mapping[str, str] | None = None) -> None:
        self._directory, self._variables, self._parts = directory, dict(variables or {}), ExitStack()
        self._port = free_port()
        jars = f"{delta_jars()}/*:{s3a_jars()}/*"
        conf = {
            "spark.executor.cores": "1",
            "spark.executor.memory": "1g",
            "spark.executor.extraClassPath": jars,
            "spark.driver.extraClassPath": jars,
            "spark.network.timeout": "60s",
            "spark.executor.heartbeatInterval": "5s",
            **_s3a(self._variables),
        }
        self._settings = SparkSettings(
            free_port(), delta_jars(), directory / "driver", self.master, "1g", _python(), conf=conf
        )
        self.remote = self._settings.remote
        self.workers: list[Process] = []

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._installed()
        for folder in ("warehouse", "scratch"):
            (self._settings.directory / folder).mkdir(parents=True)
        with self._parts as started:
            started.enter_context(self._daemon("master.Master", "127.0.0.1", self._port))
            self.workers = [started.enter_context(self._worker(host)) for host in HOSTS]
            started.enter_context(self._driver())
            self._parts = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    @contextmanager
    def other_worker(self, *, hidden: Sequence[str] = (), **variables: str) -> Iterator[None]:
        """While the block runs, the second worker's executor lacks the packages `hidden`, and has other variables."""
        usual = self.workers[1]
        usual.kill()
        try:
            with self._worker(HOSTS[1], hidden, variables) as self.workers[1]:
                self.await_executors()
                yield
        finally:
            self.workers[1] = usual.start()

    def await_executors(self) -> None:
        """Returns when every worker's executor has run a task."""
        with Sessions(self.remote) as sessions, sessions.take() as spark:
            until(lambda: _hosts(spark) == {*HOSTS})

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        return [one for worker in self.workers if worker.pid for one in _executors(psutil.Process(worker.pid))]

    def _worker(self, host: str, hidden: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> Process:
        folder = self._directory / f"work-{host}"
        options = ["--cores", "1", "--memory", "1500m", "--work-dir", str(folder), self.master]
        own = {**self._variables, **(variables or {}), "PYTHONPATH": str(self._installed(hidden))}
        return self._daemon("worker.Worker", host, free_port(), *options, **own)

    def _daemon(self, name: str, host: str, port: int, *options: str, **variables: str) -> Process:
        line = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        line += ["--host", host, "--port", str(port), "--webui-port", str(free_port()), *options]
        java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -XX:+UseSerialGC"  # five of them share two cores
        return self._process(name, line, lambda: listening(port, host), host, {"JDK_JAVA_OPTIONS": java, **variables})

    def _driver(self) -> Process:
        variables = {"PYTHONPATH": str(self._installed())}
        return self._process("driver", command(self._settings), self._answers, "127.0.0.1", variables)

    def _process(
        self, name: str, line: Sequence[str], ready: Callable[[], bool], host: str, variables: Mapping[str, str]
    ) -> Process:
        environment: dict[str, str | None] = {
            **dict.fromkeys(name for name in os.environ if name.startswith(("AWS_", "SLUICE_"))),
            "PYTHONPATH": None,
            "SPARK_REMOTE": None,
            "SPARK_HOME": str(spark_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": _python(),
            **variables,
        }
        log = self._directory / f"{name}-{host}.log"
        return Process(
            f"Spark's {name}", line, log=log, ready=ready, environment=environment, directory=self._directory, grace=2
        )

    def _installed(self, hidden: Sequence[str] = ()) -> Path:
        """A folder with an installation of this project and of what it needs, but `hidden`."""
        folder = self._directory / "-".join(["packages", *hidden])
        if folder.is_dir():
            return folder
        folder.mkdir(parents=True)
        for one in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if "__editable__" not in one.name and one.suffix != ".pth" and one.name.split("-")[0] not in hidden:
                (folder / one.name).symlink_to(one)
        for name in {"cdc_core", "spark_jobs"} - {*hidden}:
            shutil.copytree(PROJECT / name, folder / name)  # with its compiled kernels
        return folder

    def _answers(self) -> bool:
        if not listening(self._settings.port):
            return False
        with suppress(LakeError):
            self.await_executors()
            return True
        return False


def _hosts(spark: SparkSession) -> set[str]:
    """Where two tasks run that take their time."""

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            time.sleep(0.3)
            yield pa.RecordBatch.from_pydict({"host": [os.environ["SPARK_LOCAL_IP"]]})

    return {*spark.range(0, 2, 1, 2).mapInArrow(where, "host string").toArrow()["host"].to_pylist()}


def _python() -> str:
    """Returns the base Python, without the packages of the environment."""
    return os.path.realpath(sys.executable)


def _s3a(variables: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for the store that delta-rs finds by the variables."""
    found = {key: variables[name] for name, key in _S3A.items() if name in variables}
    return {f"spark.hadoop.fs.s3a.{key}": value for key, value in (found | _S3A_CONF).items()}


def _executors(worker: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in worker.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in child.cmdline():
                found.append(child)
    return found
