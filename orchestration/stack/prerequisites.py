"""System packages that the servers need. Root on Debian gets them installed; anybody else gets the command to run.

Never asks for a password, and never changes what is already installed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from cdc_core.errors import ConfigError
from orchestration.stack.artifacts import artifacts_dir, locked
from orchestration.stack.progress import Notify, quiet

_LOCK_SECONDS = 600  # for whoever else installs packages, a system's own upgrade for example


def need_java(notify: Notify = quiet) -> str:
    """The path of `java`. Raises ConfigError with the command that installs it."""
    need("a Java runtime", lambda: shutil.which("java") is not None, ["openjdk-17-jre-headless"], notify)
    return shutil.which("java") or "java"


def need_libraries(notify: Notify = quiet) -> None:
    """Checks for the libraries that the packaged MySQL servers link against."""
    need("libaio", lambda: _loads("libaio.so.1"), ["libaio1"], notify)
    need("libnuma", lambda: _loads("libnuma.so.1"), ["libnuma1"], notify)


def need_mariadb(notify: Notify = quiet) -> tuple[str, str]:
    """`mariadbd` and `mariadb-install-db`: the packages without a system service.

    The installer calls `my_print_defaults`, which Debian ships with the client.
    """
    need(
        "MariaDB",
        lambda: _mariadbd() is not None and shutil.which("my_print_defaults") is not None,
        ["mariadb-server-core", "mariadb-client-core"],
        notify,
    )
    return _mariadbd() or "mariadbd", shutil.which("mariadb-install-db") or "mariadb-install-db"


def need_chromium(notify: Notify = quiet) -> str:
    """The path of a Chromium browser."""
    need("Chromium", lambda: _chromium() is not None, ["chromium"], notify)
    return _chromium() or "chromium"


def need(what: str, installed: Callable[[], bool], packages: list[str], notify: Notify = quiet) -> None:
    """Installs `packages` unless `installed()`. Raises ConfigError when we may not install them, or in vain."""
    if installed():
        return
    command = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    if not _may_install():
        raise ConfigError(f"{what} is not installed", hint=f"Run: sudo {command}")
    with locked(artifacts_dir() / "apt"):
        if not installed():  # another process may have done it meanwhile
            notify(f"installing {' '.join(packages)}")
            _install(packages)
    if not installed():
        raise ConfigError(f"{what} is still missing after its packages were installed", hint=f"Run by hand: {command}")


def _install(packages: list[str]) -> None:
    wait = f"DPkg::Lock::Timeout={_LOCK_SECONDS}"
    install = ["apt-get", "-o", wait, "install", "-qq", "-y", "--no-install-recommends", *packages]
    if _apt(install).returncode == 0:
        return
    _apt(["apt-get", "update", "-qq"])
    done = _apt(install)
    if done.returncode:
        raise ConfigError(
            f"apt-get could not install {' '.join(packages)}",
            place=done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "",
            hint=f"Run it by hand: {' '.join(install)}",
        )


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _may_install() -> bool:
    return os.geteuid() == 0 and Path("/etc/debian_version").is_file() and shutil.which("apt-get") is not None


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _mariadbd() -> str | None:
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
