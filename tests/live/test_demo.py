"""The demo as a user starts it, on real MySQL, ZooKeeper, Spark and Dagster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from orchestration.demo import shop
from orchestration.stack.artifacts import artifacts_dir
from orchestration.stack.ports import free_port, listening


@pytest.fixture
def ports() -> list[int]:
    """Free ports for HTTP, Flight and Dagster."""
    return [free_port() for _ in range(3)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A state directory of its own that shares the downloads."""
    (tmp_path / "artifacts").symlink_to(artifacts_dir())
    return {**os.environ, "SLUICE_HOME": str(tmp_path)}


def demo(ports: list[int], *more: str) -> list[str]:
    http, flight, dagster = (str(port) for port in ports)
    doors = ["--http-port", http, "--flight-port", flight, "--dagster-port", dagster]
    return [sys.executable, "-m", "orchestration.cli", "demo", *doors, *more]


@pytest.mark.integration
@pytest.mark.full
@pytest.mark.timeout(2000)
def test_the_demo_ends_without_a_difference(environment: dict[str, str], ports: list[int]) -> None:
    """The last line is the JSON object, the exit code is 0, and nothing is left running. Its Spark was warmed, or a
    batch came first, and nothing of that is left. pandas reads each table of the lake then, as delta-rs opens it."""
    command = demo(ports, "--once", "--seconds", "5", "--rate", "200")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1900, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["tables"] == 8
    assert figures["differences"] == 0
    assert figures["rows"] > 500
    assert figures["freshness_p95_s"] >= figures["freshness_p50_s"] > 0
    assert not any(listening(port) for port in ports)
    assert "Spark is warm" in done.stderr or "the warm-up of Spark ends" in done.stderr
    assert list(Path(environment["SLUICE_HOME"]).rglob("warming")) == []
    lake = Path(environment["SLUICE_HOME"], "demo", "lake")
    rows = {path.parent.name: _rows_in_pandas(path.parent) for path in lake.glob(f"{shop.DATABASE}/*/_delta_log")}
    assert rows.keys() == {*shop.TABLES}
    assert min(rows.values()) > 0


def _rows_in_pandas(path: Path) -> int:
    """The rows of a table, which pandas and delta-rs count alike."""
    table = DeltaTable(path)
    rows = len(table.to_pandas())
    assert rows == table.count()
    return rows


@pytest.mark.in_turn
@pytest.mark.integration
@pytest.mark.full
def test_a_sigterm_ends_everything(environment: dict[str, str], ports: list[int]) -> None:
    """SIGTERM ends every process, even while the demo is still starting."""
    child = subprocess.Popen(demo(ports), env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 300
    while not listening(ports[0]) and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    child.send_signal(signal.SIGTERM)

    assert child.wait(240) == 143
    assert not any(listening(port) for port in ports)
    assert _running_in(environment["SLUICE_HOME"]) == []


def _running_in(home: str) -> list[str]:
    """Command lines that name a directory below `home`."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{home}/demo" in line:
                found.append(line)
    return found
