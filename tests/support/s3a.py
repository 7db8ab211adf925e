"""A Spark that reads and writes S3, by jars that are downloaded once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestration.stack.artifacts import prepare
from orchestration.stack.delta import delta_jars
from orchestration.stack.ivy import Artifact, fetch
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.connect_server import spark_jars

_S3A = Artifact("org.apache.hadoop", "hadoop-aws", "3.5.0")
_AWS = "software.amazon.awssdk"
_NEEDED = (  # in the place of the SDK's bundle, which has 600 MB
    Artifact(_AWS, "s3-transfer-manager", "2.35.4"),
    Artifact(_AWS, "sts", "2.35.4"),
    Artifact(_AWS, "apache-client", "2.35.4"),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)

_KEYS = {
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_REGION": "endpoint.region",
    "AWS_ACCESS_KEY_ID": "access.key",
    "AWS_SECRET_ACCESS_KEY": "secret.key",
}
_CONF = {"path.style.access": "true", "connection.ssl.enabled": "false", "performance.flags": "create"}


@contextmanager
def s3a_spark(folder: Path) -> Iterator[str]:
    """What SPARK_REMOTE names: a Spark that creates commits by conditional PUTs in the store that the environment
    names, as docs/operations.md says."""
    keys = {key: os.environ[name] for name, key in _KEYS.items()}
    conf = {f"spark.hadoop.fs.s3a.{key}": value for key, value in (keys | _CONF).items()}
    conf |= {"spark.driver.extraClassPath": f"{delta_jars()}/*:{s3a_jars()}/*"}
    server = SparkConnect(folder / "spark", free_port(), driver_memory="1g", conf=conf).start()
    try:
        yield server.remote
    finally:
        server.stop()


def s3a_jars() -> Path:
    """A folder with S3A and what it needs besides Spark's own jars. Raises ConfigError."""

    def fill(directory: Path) -> None:
        for artifact in _NEEDED:
            fetch(artifact, directory, transitive=True)
        shipped = {_name(jar) for jar in spark_jars().glob("*.jar")}
        for jar in directory.glob("*.jar"):
            if _name(jar) in shipped:
                jar.unlink()
        fetch(_S3A, directory)

    return prepare(f"s3a-{_S3A.revision}", _S3A.jar, fill)


def _name(jar: Path) -> str:
    """A jar's name without its version."""
    return "-".join(word for word in jar.stem.split("-") if not word[:1].isdigit())
