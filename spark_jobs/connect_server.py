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
DERBY = "derby"  # the folder of a metastore's database
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_UNREAD_FIGURES = (  # of a commit's checksum, which Delta reads all files' entries for: a tenth of a small MERGE
    "spark.databricks.delta.fileSizeHistogramMetrics.enabled",
    "spark.databricks.delta.checksumDVMetrics.enabled",
    "spark.databricks.delta.checksumDeletedRecordCountsHistogramMetrics.enabled",
)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`delta_jars` is a directory of Delta's jars; `directory` is for scratch, warehouse and logs of this server.
    With a `metastore` its catalog and warehouse are in that directory, and last."""

    port: int
    delta_jars: Path
    directory: Path
    master: str = "local[*]"
    driver_memory: str = "2g"
    python: str = sys.executable
    metastore: Path | None = None
    token: str = field(default="", repr=False)  # without it anybody of this machine runs code as the server's user
    classes: Path | None = None  # an archive of Java's, of classes that this class path has
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
    home, said = settings.metastore or settings.directory, settings.directory / "derby.log"
    derby = f"-Dderby.system.home={home}", f"-Dderby.stream.error.file={said}"
    options = [*class_options(settings.classes), *derby]
    java = " ".join(["-XX:+UseParallelGC", "-XX:-UsePerfData", *map(_java_option, options)])
    line = [str(spark_home() / "bin" / "spark-submit"), "--master", settings.master]
    line += ["--driver-memory", settings.driver_memory, "--driver-java-options", java]
    for key, value in spark_conf(settings).items():
        line += ["--conf", f"{key}={value}"]
    return [*line, str(_HOST)]


def class_options(archive: Path | None) -> list[str]:
    """Java's options for an archive of classes. It says nothing of one that is gone, torn or does not fit: it loads
    the classes without."""
    if archive is None:
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def _java_option(text: str) -> str:
    """Returns an option as Spark's launcher reads it among others: with quotes, whatever characters it has."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
        **dict.fromkeys(_UNREAD_FIGURES, "false"),
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    if settings.master.startswith("local["):  # there Spark makes the secret itself; other masters need one
        ours["spark.authenticate"] = "true"  # the driver's own ports too, which take objects of any program
        ours["spark.python.daemon.module"] = "spark_jobs.python_daemon"  # its workers need not import everything
    if settings.metastore is not None:
        ours |= _metastore_conf(settings.metastore, settings.directory)
    return ours | settings.conf


def _metastore_conf(metastore: Path, directory: Path) -> dict[str, str]:
    """A Hive metastore within the server, in a Derby database: one server at a time opens it. The database is named
    relative to Derby's home: in its URL a path could have no `;`."""
    scratch = directory / "scratch" / "hive"
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(metastore / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={DERBY};create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.hadoop.hive.exec.scratchdir": str(scratch / "all"),  # otherwise /tmp/hive, of all users
        "spark.hadoop.hive.exec.local.scratchdir": str(scratch / "local"),
        "spark.hadoop.hive.downloaded.resources.dir": str(scratch / "resources"),  # otherwise /tmp/..._resources
    }
