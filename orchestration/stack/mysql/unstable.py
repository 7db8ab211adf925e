"""MySQL 9 from Debian's unstable suite, unpacked into a separate directory and run with its own loader.

The system's packages, package lists and libraries stay as they are. The suite's version changes: use it to try a newer
server, not to rely on one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cdc_core.errors import ConfigError
from orchestration.stack.artifacts import prepare
from orchestration.stack.progress import Notify, quiet

UNSTABLE = "9"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR = re.compile(r"https?://\S+/debian/?(?=\s|$)")
_UNUSED = re.compile(
    r"(perl.*|libperl.*|libgdbm.*|libdb5.*|libcrypt1|libbz2.*|dpkg|tar|debconf|base-files|gcc-.*-base)$"
)  # packages that mysqld does not load
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/mysql/private")
_SERVER = "usr/sbin/mysqld"
_NOT_UNPACKED = ("doc", "man", "locale", "lintian")


def unstable_server(notify: Notify = quiet) -> Path:
    """Returns the directory with `usr/sbin/mysqld`, downloaded once. Raises ConfigError if it cannot be downloaded."""

    def fill(directory: Path) -> None:
        notify("downloading MySQL 9 from Debian's unstable suite (100 MB, once)")
        with tempfile.TemporaryDirectory() as scratch:
            _unpack(_download(Path(scratch)), directory)
        if not (directory / _SERVER).is_file() or not any(path.exists() for path in _loaders(directory)):
            raise _unavailable("the packages hold no server")

    return prepare(f"mysql-{UNSTABLE}", _SERVER, fill)


def unstable_command(prefix: Path) -> tuple[str, ...]:
    """The server's command line: it runs with the loader and the libraries that were downloaded with it."""
    loader = next(path for path in _loaders(prefix) if path.exists())
    path = ":".join(str(prefix / part) for part in _LIBRARIES)
    return str(loader), "--library-path", path, str(prefix / _SERVER)


def _loaders(prefix: Path) -> list[Path]:
    return [prefix / place / "ld-linux-x86-64.so.2" for place in ("usr/lib64", "lib64", "usr/lib/x86_64-linux-gnu")]


def _download(scratch: Path) -> list[Path]:
    """The packages of the server and of all the libraries that it loads."""
    apt = _apt(scratch / "apt")
    _run([*apt, "-qq", "update"])
    plan = _run([*apt, "-s", "install", "mysql-server-core"])
    names = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")} | {"libc6", "libgcc-s1"}
    packages = scratch / "packages"
    packages.mkdir()
    _run([*apt, "-qq", "download", *sorted(name for name in names if not _UNUSED.match(name))], packages)
    return sorted(packages.glob("*.deb"))


def _apt(directory: Path) -> list[str]:
    """apt-get with lists, cache and state of its own. Its only source is the suite, at the system's own mirror."""
    mirror = _mirror()
    if mirror is None or not _KEYRING.is_file() or shutil.which("apt-get") is None:
        raise _unavailable("the system is not a Debian with a package mirror and its keyring")
    for part in ("lists/partial", "cache/archives/partial", "empty"):
        (directory / part).mkdir(parents=True)
    (directory / "status").touch()
    (directory / "sources.list").write_text(f"deb [arch=amd64 signed-by={_KEYRING}] {mirror} sid main\n")
    options = {
        "Dir::Etc::sourcelist": directory / "sources.list",
        "Dir::Etc::sourceparts": directory / "empty",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": directory / "empty",
        "Dir::State::lists": directory / "lists",
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "Acquire::Retries": "3",
    }
    return ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]


def _mirror() -> str | None:
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    texts = (place.read_text(errors="replace") for place in places if place.is_file())
    return next((found[0] for text in texts if (found := _MIRROR.search(text))), None)


def _unpack(packages: list[Path], target: Path) -> None:
    for package in packages:
        archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], capture_output=True, check=True).stdout
        unpack = ["tar", "-C", str(target), "-x", "--keep-directory-symlink"]
        unpack += [f"--exclude=./usr/share/{name}*" for name in _NOT_UNPACKED]
        subprocess.run(unpack, input=archive, check=True)


def _run(command: list[str], directory: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    if done.returncode:
        raise _unavailable((done.stderr.strip().splitlines() or ["apt-get failed"])[-1])
    return done.stdout


def _unavailable(why: str) -> ConfigError:
    return ConfigError(f"MySQL 9 cannot be installed: {why}", hint="Use 8.0.31, which needs no package.")
