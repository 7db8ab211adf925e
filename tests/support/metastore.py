"""A Hive metastore server, run from the jars that pyspark ships, with its tables in Derby."""

from __future__ import annotations

from pathlib import Path

from orchestration.stack.ports import listening
from orchestration.stack.prerequisites import need_java
from orchestration.stack.process import Process
from spark_jobs.connect_server import spark_jars

_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"


class Metastore(Process):
    """`conf` is what a Spark needs to use it. What it knows survives `kill`."""

    def __init__(self, directory: Path, port: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory / 'derby'};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(directory / "warehouse"),
            "hive.async.log.enabled": "false",  # pyspark has no jar for it
        }
        lines = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
        (directory / "hive-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        command = [need_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dderby.system.home={directory}", "-cp", f"{directory}:{spark_jars()}/*", _MAIN, "-p", str(port)]
        log = directory / "metastore.log"
        super().__init__("the Hive metastore", command, log=log, ready=lambda: listening(port), directory=directory)
        self.conf = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{port}",
            "spark.hadoop.hive.metastore.connect.retries": "1",
            "spark.hadoop.hive.metastore.failure.retries": "0",
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "100ms",
        }
