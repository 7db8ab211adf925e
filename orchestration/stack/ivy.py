"""Jars from Maven coordinates, by the ivy that pyspark ships.

Which registry serves a coordinate is ivy's business: its own defaults, or the settings file named by `IVY_SETTINGS`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cdc_core.errors import ConfigError
from orchestration.stack.prerequisites import need_java
from orchestration.stack.progress import Notify, quiet
from spark_jobs.connect_server import spark_jars


@dataclass(frozen=True, slots=True)
class Artifact:
    """A Maven coordinate. With a `sha256` other bytes are refused."""

    organisation: str
    name: str
    revision: str
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"

    @property
    def jar(self) -> str:
        return f"{self.name}-{self.revision}.jar"


def fetch(artifact: Artifact, directory: Path, *, transitive: bool = False, notify: Notify = quiet) -> Path:
    """Downloads a jar into `directory`, with the jars that it depends on if `transitive`, and returns its path.

    Raises ConfigError when it cannot be downloaded, or is not what was pinned.
    """
    with tempfile.TemporaryDirectory() as cache:
        lines = _retrieve(artifact, directory, cache, need_java(notify), transitive=transitive)
    jar = directory / artifact.jar
    if not jar.is_file():
        raise ConfigError(
            f"cannot download {artifact}: {_reason(lines)}",
            place=str(artifact),
            hint="Check the network, or name a repository in an ivy settings file: IVY_SETTINGS=/path/ivysettings.xml.",
        )
    if artifact.sha256 and (found := _sha256(jar)) != artifact.sha256:
        raise ConfigError(
            f"{artifact} has the sha256 {found}, expected {artifact.sha256}",
            place=str(artifact),
            hint="The registry or a proxy serves other bytes: find out why before you try again.",
        )
    return jar


def _retrieve(artifact: Artifact, directory: Path, cache: str, java: str, *, transitive: bool) -> list[str]:
    """Returns what ivy printed."""
    ivy = next(spark_jars().glob("ivy-*.jar"))
    command = [java, "-cp", str(ivy), "org.apache.ivy.Main", "-cache", cache, "-confs", "default"]
    if settings := os.environ.get("IVY_SETTINGS"):
        command += ["-settings", settings]
    command += ["-dependency", artifact.organisation, artifact.name, artifact.revision]
    command += ["-retrieve", f"{directory}/[artifact]-[revision].[ext]"]
    if not transitive:
        command += ["-types", "jar", "-notransitive"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()


def _reason(lines: list[str]) -> str:
    """Ivy's own words, without its frames of colons."""
    words = [line.strip(" :\t") for line in lines[-60:] if "::" in line or "not found" in line]
    return "; ".join(word for word in words if word)[-800:] or "; ".join(lines[-3:])


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
