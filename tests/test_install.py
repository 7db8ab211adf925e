"""deploy/install.sh into a prefix that has nothing: each part is installed, and starts. The next part comes on top: it
needs all that the one before it does, and more."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestration.stack.ports import answers, free_port, listening
from spark_jobs.session import connect
from tests.support.checkout import checked_out

pytestmark = [pytest.mark.full, pytest.mark.integration]
Install = Callable[[str], Path]


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """Installs a part of a clean checkout by the script. Returns its prefix, which is that of all."""
    folder = tmp_path_factory.mktemp("install")
    script, prefix = checked_out(folder / "src") / "deploy" / "install.sh", folder / "opt"
    environment = bare() | {"SLUICE_PREFIX": str(prefix), "PYTHON": sys.executable}
    environment["PIP_COMPILE"] = "0"  # what no part imports need not be compiled

    def installed(part: str) -> Path:
        done = subprocess.run([script, part], env=environment, capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("install: done\n")
        return prefix

    yield installed
    shutil.rmtree(folder)  # a gigabyte


def bare() -> dict[str, str]:
    """The environment without what makes this checkout's packages known."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def has(prefix: Path, module: str) -> bool:
    """Whether the installed Python imports a module, from the prefix alone."""
    command = [
        prefix / "bin" / "python",
        "-c",
        f"import {module}; assert {module}.__file__.startswith({str(prefix)!r})",
    ]
    return subprocess.run(command, env=bare(), cwd=prefix, capture_output=True).returncode == 0


@contextmanager
def running(command: list[str], ready: Callable[[], bool], environment: dict[str, str], folder: Path) -> Iterator[None]:
    """A process that is ready within minutes, as nothing was compiled before, and that ends by SIGTERM."""
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen(
            command, env=bare() | environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 300
            while not ready():
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.5)
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # Spark's Python outlives its JVM, as a unit's or container's cannot
            process.wait(60)


@pytest.mark.in_turn
def test_the_service_is_installed_without_spark_and_dagster(install: Install, tmp_path: Path) -> None:
    """It answers at its door, as the unit and the image start it."""
    prefix = install("service")
    http, flight = free_port(), free_port()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "canal.properties").write_text(
        f"canal.metrics.pull.port = {http}\nsluice.flight.port = {flight}\ncanal.withoutNetty = true\n"
        f"canal.file.data.dir = {tmp_path}/data\n"
    )

    assert [has(prefix, one) for one in ("cdc_core", "pyspark", "dagster")] == [True, False, False]
    command, conf = [str(prefix / "bin" / "sluice-service")], {"SLUICE_CONF": str(tmp_path / "conf")}
    with running(command, lambda: answers(f"http://127.0.0.1:{http}/healthz"), conf, tmp_path):
        assert listening(flight)


@pytest.mark.in_turn
def test_spark_is_installed_with_delta(install: Install, tmp_path: Path) -> None:
    """It makes a Delta table for a client with its token, and does not start without one."""
    prefix = install("spark")
    port, token, program = free_port(), "of-this-test", str(prefix / "bin" / "sluice-spark")
    refused = subprocess.run([program], env=bare(), capture_output=True, text=True)

    assert (refused.returncode, has(prefix, "dagster")) == (2, False)
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" in refused.stderr
    command = [program, "--conf", f"spark.connect.grpc.binding.port={port}"]
    with running(command, lambda: listening(port), {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}, tmp_path):
        spark = connect(f"sc://localhost:{port}", token)
        spark.range(3).write.format("delta").save(str(tmp_path / "table"))

        assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3
        spark.stop()


@pytest.mark.in_turn
def test_dagster_is_installed_with_its_settings(install: Install, tmp_path: Path) -> None:
    """The code server loads a folder of destinations, and the pages answer beside it."""
    prefix = install("dagster")
    (tmp_path / "defs").mkdir()
    code, web = free_port(), free_port()
    environment = {
        **{"DAGSTER_HOME": str(tmp_path / "home"), "SLUICE_DEFS": str(tmp_path / "defs")},
        **{"DAGSTER_CODE_PORT": str(code), "DAGSTER_PORT": str(web)},
    }
    program, folder = str(prefix / "bin" / "sluice-dagster"), tmp_path / "web"
    folder.mkdir()

    with (
        running([program, "code"], lambda: listening(code), environment, tmp_path),
        running([program, "web"], lambda: answers(f"http://127.0.0.1:{web}/server_info"), environment, folder),
    ):
        assert "ConsolidatedSqliteEventLogStorage" in (tmp_path / "home" / "dagster.yaml").read_text()
