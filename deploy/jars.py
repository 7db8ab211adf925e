"""Fetches the jars that Spark needs for Delta into a folder: jars.py FOLDER [--s3]. With --s3 also those of s3a://."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from orchestration.stack.ivy import Artifact, fetch
from spark_jobs.connect_server import delta_artifact, spark_jars

_AWS = "software.amazon.awssdk"
_S3A = (  # of the Hadoop that Spark 4.2 ships, and what it needs in the place of the SDK's bundle, which has 600 MB
    Artifact("org.apache.hadoop", "hadoop-aws", "3.5.0"),
    Artifact(_AWS, "s3-transfer-manager", "2.35.4"),
    Artifact(_AWS, "sts", "2.35.4"),
    Artifact(_AWS, "apache-client", "2.35.4"),
    Artifact("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)


def main(folder: Path, s3: bool) -> None:
    shipped = {_name(jar) for jar in spark_jars().glob("*.jar")}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("SLUICE_HOME", home)
        for artifact in [Artifact(*delta_artifact().split(":")), *(_S3A if s3 else ())]:
            with tempfile.TemporaryDirectory() as scratch:
                fetch(artifact, Path(scratch), transitive=artifact != _S3A[0])
                for jar in Path(scratch).glob("*.jar"):
                    if _name(jar) not in shipped:  # two versions on one class path clash
                        shutil.move(jar, folder / jar.name)


def _name(jar: Path) -> str:
    return "-".join(word for word in jar.stem.split("-") if not word[:1].isdigit())


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--s3" in sys.argv[2:])
