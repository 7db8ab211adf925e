"""How a local Spark Connect server with Delta is run: its settings, command line and environment. Starts nothing."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cdc_core.errors import LakeError
from spark_jobs.local_token import VARIABLE

_PROJECT = Path(__file__).resolve().parent.parent
_HOST = Path(__file__).with_name("connect_host.py")
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`delta_jars` is a directory of Delta's jars; `directory` is for scratch, warehouse and logs of this server."""

    port: int
    delta_jars: Path
    directory: Path
    master: str = "local[*]"
    driver_memory: str = "2g"
    python: str = sys.executable
    token: str = field(default="", repr=False)  # without it anybody of this machine runs code as the server's user
    conf: dict[str, str] = field(default_factory=dict)  # overrides ours

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"


def spark_home() -> Path:
    """The directory of the installed pyspark. Does not import it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LakeError("pyspark is not installed", hint="Run: make setup")
    return Path(spec.origin).parent


def spark_jars() -> Path:
    """The jars that pyspark ships: Spark, ZooKeeper and ivy."""
    return spark_home() / "jars"


def delta_artifact() -> str:
    """Delta's Maven coordinate for the installed pyspark and delta-spark."""
    line = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{line}_2.13:{version('delta-spark')}"


def command(settings: SparkSettings) -> list[str]:
    """The command line of the server."""
    java = f"-XX:+UseParallelGC -XX:-UsePerfData -Dderby.system.home={settings.directory}"
    line = [str(spark_home() / "bin" / "spark-submit"), "--master", settings.master]
    line += ["--driver-memory", settings.driver_memory, "--driver-java-options", java]
    for key, value in spark_conf(settings).items():
        line += ["--conf", f"{key}={value}"]
    return [*line, str(_HOST)]


def environment(settings: SparkSettings) -> dict[str, str | None]:
    """The variables of the server and of its Python workers. One that is None is left out."""
    paths = [str(_PROJECT), os.environ.get("PYTHONPATH", "")]
    return {
        "SPARK_REMOTE": None,
        "PYSPARK_PYTHON": settings.python,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        VARIABLE: settings.token or None,
    }


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """Spark's configuration, with the user's laid over ours. Each comment says why a value is not the default."""
    cores = settings.master.partition("[")[2].rstrip("]")
    count = int(cores) if cores.isdigit() else os.cpu_count() or 1
    ours = {
        "spark.plugins": _PLUGIN,
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
        "spark.sql.adaptive.enabled": "false",  # a MERGE has few partitions, so there is nothing to adapt: 10 % faster
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.cache.maxEntries": "5000",  # with 100, the default, tables evict each other's code
        "spark.sql.artifact.isolation.enabled": "false",  # sessions share compiled code and Python workers
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 by default, which costs more than a small MERGE
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    if settings.master.startswith("local["):  # there Spark makes the secret itself; other masters need one
        ours["spark.authenticate"] = "true"  # the driver's own ports too, which take objects of any program
    return ours | settings.conf
