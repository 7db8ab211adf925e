"""The jars by which Spark reads and writes S3, downloaded once."""

from __future__ import annotations

from pathlib import Path

from orchestration.stack.artifacts import prepare
from orchestration.stack.ivy import Artifact, fetch
from spark_jobs.connect_server import spark_jars

_S3A = Artifact("org.apache.hadoop", "hadoop-aws", "3.5.0")
_AWS = "software.amazon.awssdk"
_NEEDED = (  # in the place of the SDK's bundle, which has 600 MB
    Artifact(_AWS, "s3-transfer-manager", "2.35.4"),
    Artifact(_AWS, "sts", "2.35.4"),
    Artifact(_AWS, "apache-client", "2.35.4"),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)


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
