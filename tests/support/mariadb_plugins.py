"""MariaDB's plugins: Debian ships most of them with the system's service, which the tests do not install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_INSTALLED = Path("/usr/lib/mysql/plugin")


def plugin_directory(scratch: Path) -> Path:
    """A directory with all plugins, taken out of the package without installing it; skips where it cannot be had."""
    if (_INSTALLED / "file_key_management.so").exists():
        return _INSTALLED
    package, unpacked = scratch / "package", scratch / "unpacked"
    package.mkdir()
    for attempt in (["apt-get", "download", "mariadb-server"], ["apt-get", "update", "-qq"]) * 2:
        if attempt[1] == "update" and any(package.glob("*.deb")):
            break
        subprocess.run(attempt, cwd=package, capture_output=True, check=False)
    found = next(package.glob("*.deb"), None)
    if found is None:
        pytest.skip("Debian's package mariadb-server cannot be downloaded: no file_key_management plugin")
    subprocess.run(["dpkg", "-x", str(found), str(unpacked)], check=True)
    plugins = unpacked / "usr" / "lib" / "mysql" / "plugin"
    if _INSTALLED.is_dir():
        shutil.copytree(_INSTALLED, plugins, dirs_exist_ok=True)
    return plugins
