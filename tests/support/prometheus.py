"""Prometheus and its promtool as Debian packages them: downloaded once, unpacked, run from there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from cdc_core.errors import ConfigError
from orchestration.stack.artifacts import prepare
from orchestration.stack.ports import answers, free_port
from orchestration.stack.process import Process

_SERVER, _TOOL = "usr/bin/prometheus", "usr/bin/promtool"


def installed() -> Path:
    """Returns the directory with `usr/bin/promtool`. Raises ConfigError where the package cannot be had."""

    def fill(directory: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            package = _download(Path(scratch))
            archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
            unpack = ["tar", "-C", directory, "-x", f"./{_SERVER}", f"./{_TOOL}"]
            subprocess.run(unpack, input=archive, check=True)

    return prepare("prometheus-debian", _TOOL, fill)


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [installed() / _TOOL, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


class Prometheus(Process):
    """Runs with this configuration; `url` is its page."""

    def __init__(self, config: Path, directory: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [installed() / _SERVER, f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}"]
        log = directory / "prometheus.log"
        super().__init__("Prometheus", list(map(str, command)), log=log, ready=lambda: answers(f"{self.url}/-/ready"))


def _download(scratch: Path) -> Path:
    if shutil.which("apt-get") is None:
        raise ConfigError("Prometheus cannot be downloaded: there is no apt-get", hint="Use a Debian.")
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode:
        subprocess.run(["apt-get", "-qq", "update"], capture_output=True, check=False)
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    found = next(scratch.glob("*.deb"), None)
    if found is None:
        raise ConfigError("Prometheus cannot be downloaded", place=done.stderr.strip()[-200:], hint="Look at apt-get.")
    return found
