"""One long-lived local Spark Connect server with Delta: the embedded default where no SPARK_REMOTE is named.

Promises: it listens on loopback, answers SQL when `start` returns, and its whole process group ends with `stop`.
It does not watch itself: whoever started it starts it again.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import pyspark

from cdc_core.errors import LakeError

JARS_OF_SPARK = Path(pyspark.__file__).parent / "jars"
PROJECT_ROOT = Path(__file__).resolve().parent.parent
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How the embedded server runs. `delta_jars` is a directory that `resolve_delta_jars` filled."""

    port: int
    delta_jars: Path
    directory: Path  # scratch, warehouse and logs of this server
    master: str = "local[*]"
    driver_memory: str = "2g"
    python: str = sys.executable
    start_seconds: float = 120.0
    conf: dict[str, str] = field(default_factory=dict)  # of the user; wins over ours

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.directory / "spark-connect.log"


def delta_artifact() -> str:
    """Delta's Maven coordinate for the installed pyspark and delta-spark."""
    line = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{line}_2.13:{version('delta-spark')}"


def resolve_delta_jars(directory: Path, progress: Callable[[str], None] = lambda _: None) -> Path:
    """Fills `directory` once with Delta's jars and what Spark lacks of theirs, by the ivy in pyspark's own jars.

    The repository is ivy's default, or that of the settings file named by the environment's IVY_SETTINGS.
    """
    coordinate = delta_artifact()
    group, artifact, revision = coordinate.split(":")
    if (directory / f"{artifact}-{revision}.jar").exists():
        return directory
    progress(f"fetching {coordinate}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        found = Path(scratch) / "jars"
        pattern = f"{found}/[artifact]-[revision].[ext]"
        ivy = ["java", "-cp", str(next(JARS_OF_SPARK.glob("ivy-*.jar"))), "org.apache.ivy.Main"]
        settings = os.environ.get("IVY_SETTINGS")
        wanted = [*(["-settings", settings] if settings else []), "-cache", f"{scratch}/cache"]
        wanted += ["-dependency", group, artifact, revision, "-confs", "default", "-retrieve", pattern]
        done = subprocess.run([*ivy, *wanted], capture_output=True, text=True, check=False)
        if done.returncode or not (found / f"{artifact}-{revision}.jar").exists():
            tail = " / ".join(line for line in done.stdout.splitlines()[-60:] if "::" in line or "not found" in line)
            hint = "Check the network or name a repository in an ivy settings file: IVY_SETTINGS=/path/ivysettings.xml."
            raise LakeError(f"cannot fetch Delta's jars: {tail[-800:]}", place=coordinate, hint=hint)
        _move_missing(found, directory)
    return directory


def _move_missing(found: Path, directory: Path) -> None:
    """Keeps the jars whose artifact Spark does not ship itself: two versions on one class path would clash."""
    shipped = {_artifact(jar) for jar in JARS_OF_SPARK.glob("*.jar")}
    directory.mkdir(parents=True, exist_ok=True)
    jars = sorted(found.glob("*.jar"), key=lambda jar: jar.name.startswith("delta-spark"))  # the marker comes last
    for jar in jars:
        if _artifact(jar) not in shipped:
            shutil.move(jar, directory / jar.name)


def _artifact(jar: Path) -> str:
    words = jar.stem.split("-")
    return "-".join(word for word in words if not word[:1].isdigit())


def settings_of_spark(settings: SparkSettings) -> dict[str, str]:
    """Spark's configuration; the measured choices are explained where they are not the default."""
    cores = settings.master.partition("[")[2].rstrip("]")
    count = int(cores) if cores.isdigit() else os.cpu_count() or 1
    ours = {
        "spark.connect.grpc.binding.port": str(settings.port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.session.manager.defaultSessionTimeout": "24h",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": f"{settings.delta_jars}/*",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(settings.directory / "warehouse"),
        "spark.local.dir": str(settings.directory / "scratch"),
        "spark.log.level": "WARN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(count),
        "spark.sql.adaptive.enabled": "false",  # a MERGE's few partitions leave it nothing to adapt; a tenth faster
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.cache.maxEntries": "5000",  # of 100, as by default, tables push out each other's
        "spark.sql.artifact.isolation.enabled": "false",  # code is compiled once for all sessions
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 tasks by default, dearer than a small MERGE
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    return ours | settings.conf


def start(settings: SparkSettings, progress: Callable[[str], None] = lambda _: None) -> subprocess.Popen[bytes]:
    """Starts the server and waits until it answers. Raises LakeError when it ends or stays silent."""
    for place in (settings.directory / "warehouse", settings.directory / "scratch"):
        place.mkdir(parents=True, exist_ok=True)
    command = [str(JARS_OF_SPARK.parent / "bin" / "spark-submit"), "--class", _MAIN, "--master", settings.master]
    command += ["--driver-memory", settings.driver_memory, "--driver-java-options", _java_options(settings)]
    for key, value in settings_of_spark(settings).items():
        command += ["--conf", f"{key}={value}"]
    paths = [str(PROJECT_ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    environment |= {"PYSPARK_PYTHON": settings.python, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment |= {"SPARK_HOME": str(JARS_OF_SPARK.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    with settings.log_file.open("ab") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=settings.directory,
            start_new_session=True,  # a group of its own: `stop` ends the Python workers too
        )
    try:
        _wait(process, settings, progress)
    except BaseException:
        stop(process)
        raise
    return process


def _java_options(settings: SparkSettings) -> str:
    return f"-XX:+UseParallelGC -XX:-UsePerfData -Dderby.system.home={settings.directory}"


def _wait(process: subprocess.Popen[bytes], settings: SparkSettings, progress: Callable[[str], None]) -> None:
    from spark_jobs.session import connect, disconnect

    began, told = time.monotonic(), 0.0
    while not is_listening(settings.port):
        waited = time.monotonic() - began
        if process.poll() is not None or waited > settings.start_seconds:
            state = "ended" if process.poll() is not None else f"did not listen within {waited:.0f} s"
            hint = f"Its last words are in {settings.log_file}: {_last_words(settings.log_file)}"
            raise LakeError(f"the Spark Connect server {state}", place=settings.remote, hint=hint)
        if waited - told >= 1:
            told = waited
            progress(f"Spark Connect server starting, {waited:.0f} s")
        time.sleep(0.1)
    spark = connect(settings.remote)
    spark.sql("SELECT 1").collect()
    disconnect(spark)
    progress(f"Spark Connect server answers at {settings.remote} after {time.monotonic() - began:.1f} s")


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _last_words(log_file: Path) -> str:
    lines = log_file.read_text(errors="replace").splitlines()
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return (errors or lines or ["(nothing)"])[-1][:300]


def stop(process: subprocess.Popen[bytes], grace_seconds: float = 10.0) -> None:
    """Ends the server and its Python workers: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
