"""Measures what a stranger meets: `python -m scripts.first_row [--wheel FILE] [--service]`.

The steps of docs/start.md in an empty environment and home, with a MySQL that stands for the stranger's own: the wheel
is installed, `sluice init` writes a configuration, `sluice check` looks at it, and `sluice up` brings a row into a
lake. `--service` measures the capture service alone: the size of wheel and environment, and how long its starts take.
Prints a table, and with --json an object a line. Packages come from pip's index or its cache.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_TOOLS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")  # what every environment has
_LONGEST = 1800.0  # seconds for one step


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement, and the limit that it should keep; 0 is none."""

    name: str
    value: float
    unit: str
    limit: float = 0


class Stranger:
    """A folder with an environment, a home and a working directory, which are empty at first."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.work = folder / "env" / "bin", folder / "work"
        for one in (self.work, folder / "home"):
            one.mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        kept |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.environment = kept | {"HOME": str(folder / "home"), "COLUMNS": "80"}
        subprocess.run([sys.executable, "-m", "venv", self.bin.parent], check=True)

    @property
    def packages(self) -> Path:
        return next(self.bin.parent.glob("lib/python*/site-packages"))

    def run(self, *words: str | Path) -> str:
        """Returns what a program of the environment prints. Raises RuntimeError."""
        command = [str(self.bin / words[0]), *map(str, words[1:])]
        done = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self, wheel: Path, extra: str) -> None:
        what = f"sluice-cdc{extra} @ {wheel.absolute().as_uri()}"
        self.run("pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt", what)

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A program that is ended at last, with all that it has started."""
        with (self.work / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(self.bin / words[0]), *words[1:]],
                cwd=self.work, env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def until(self, process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
        """Raises RuntimeError when the process ends before, or time does."""
        end = time.monotonic() + _LONGEST
        while not ready():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.work / "log").read_text())
            time.sleep(0.02)


def service_figures(stranger: Stranger, wheel: Path) -> Iterator[Figure]:
    """Installs without an extra, and starts the service twice."""
    stranger.install(wheel, "")
    names = {path.name for path in stranger.packages.glob("*.dist-info")}
    tools = [path for path in stranger.packages.iterdir() if path.name.partition("-")[0] in _TOOLS]
    own = [path for path in stranger.packages.iterdir() if path not in tools]
    yield Figure("wheel", wheel.stat().st_size / 1e6, "MB", 2)
    yield Figure("environment", sum(map(_bytes, own)) / 2**20, "MiB", 560)
    yield Figure("environment_packages", len(names - {path.name for path in tools}), "packages", 45)
    conf = stranger.work / "conf"
    conf.mkdir()
    http, flight = _free(), _free()
    (conf / "canal.properties").write_text(
        f"canal.metrics.pull.port = {http}\nsluice.flight.port = {flight}\ncanal.withoutNetty = true\n"
    )
    before = _files(stranger.packages)
    for name, limit in (("service_first_start", 3), ("service_start", 2)):
        begun = time.monotonic()
        with stranger.running("sluice", "server", "--conf", "conf") as process:
            stranger.until(process, lambda: _answers(f"http://127.0.0.1:{http}/readyz"))
            yield Figure(name, time.monotonic() - begun, "s", limit)
            yield Figure(f"{name}_waited", _waited(process.pid), "s for a core")
            yield Figure(f"{name}_cpu", _cpu(process.pid), "CPU s")
    yield Figure("written_into_site_packages", len(_files(stranger.packages) - before), "files")


def row_figures(stranger: Stranger, wheel: Path) -> Iterator[Figure]:
    """The steps of docs/start.md, in seconds."""
    from orchestration.stack.mysql.server import MySqlServer

    mysql = MySqlServer("8.0.31", stranger.work.parent / "mysql").start()
    try:
        mysql.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, item VARCHAR(20))",
            "INSERT INTO shop.orders VALUES (1, 'pump')",
        )
        stranger.environment["MYSQL_PASSWORD"] = mysql.password
        address = f"{mysql.host}:{mysql.port}"
        clock = _Clock()
        stranger.install(wheel, "[dagster]")
        yield clock.lap("pip install 'sluice-cdc[dagster]'")
        given = ["--address", address, "--user", mysql.user, "--database", "shop", "--lake", "lake"]
        stranger.run("sluice", "init", "--destination", "shop", *given)
        yield clock.lap("sluice init")
        stranger.run("sluice", "check", "--conf", "conf", "--lake", "lake")
        yield clock.lap("sluice check")
        up = ["up", "--conf", "conf", "--lake", "lake", "--defs", "defs.yaml", "--dagster-port", str(_free())]
        with stranger.running("sluice", *up) as process:
            stranger.until(process, lambda: _rows(stranger.work / "lake") == 1)
            yield clock.lap("sluice up, until the snapshot is in the lake")
            mysql.execute("INSERT INTO shop.orders VALUES (2, 'hose')")
            stranger.until(process, lambda: _rows(stranger.work / "lake") == 2)
            yield clock.lap("a new row, until it is in the lake")
        yield Figure("in all", clock.now - clock.begun, "s", 300)
    finally:
        mysql.stop()


class _Clock:
    def __init__(self) -> None:
        self.begun = self.now = time.monotonic()

    def lap(self, name: str) -> Figure:
        before, self.now = self.now, time.monotonic()
        return Figure(name, self.now - before, "s")


def _rows(lake: Path) -> int:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        tables = [DeltaTable(log.parent) for log in lake.glob("**/orders/_delta_log")]
        return sum(table.count() for table in tables)
    return 0


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files)


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _waited(pid: int) -> float:
    """Returns how long the main thread could run and had no core: what a quiet machine would not show."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def _free() -> int:
    from orchestration.stack.ports import free_port

    return free_port()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 (it is ours)
            return True
    except (urllib.error.URLError, OSError):
        return False


def built(folder: Path) -> Path:
    """Returns the wheel of this checkout, with compiled kernels."""
    environment = os.environ | {"SLUICE_KERNELS": "1", "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, env=environment)
    return next(folder.glob("*.whl"))


def main() -> int:
    """Returns 1 if a figure is over its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--service", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    over = False
    with tempfile.TemporaryDirectory(prefix="sluice-stranger-") as name:
        wheel = options.wheel or built(Path(name))
        stranger = Stranger(Path(name))
        for one in service_figures(stranger, wheel) if options.service else row_figures(stranger, wheel):
            limit = f"   limit {one.limit:g}" if one.limit else ""
            plain = f"{one.name:<48}{one.value:10.1f} {one.unit:<12}{limit}"
            print(json.dumps(asdict(one)) if options.json else plain.rstrip(), flush=True)
            over |= bool(one.limit) and one.value > one.limit
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
