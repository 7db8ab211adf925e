"""`sluice up` on a real source, with real processes; its Spark is one that nobody asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.integration
PROJECT = Path(__file__).parents[3]


@dataclass
class Up:
    """The command, what it has said so far, and its parts by a word of their command lines."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str
    database: str

    @property
    def said(self) -> str:
        return self.log.read_text()

    def part(self, word: str) -> int | None:
        """The leader of the group of the part whose command line has the word."""
        for child in psutil.Process(self.process.pid).children():
            if any(word in argument for argument in child.cmdline()):
                return child.pid
        return None

    def sensors(self) -> set[str]:
        selector = '{repositoryName: "__repository__", repositoryLocationName: "sluice"}'
        query = f"{{sensorsOrError(repositorySelector: {selector}) {{... on Sensors {{results {{name}}}}}}}}"
        answer = httpx.post(f"{self.url}/graphql", json={"query": query}, timeout=30, trust_env=False).json()
        return {sensor["name"] for sensor in answer["data"]["sensorsOrError"].get("results", [])}


@pytest.fixture
def up(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Up]:
    """Of a database without a table, on ports of its own; the defs.yaml names neither the service nor Spark."""
    http, flight, dagster = free_port(), free_port(), free_port()
    database = f"up_{http}"
    mysql8.execute(f"CREATE DATABASE {database}")
    service = {
        "canal.ip": "127.0.0.1",
        "canal.metrics.pull.port": http,
        "sluice.flight.port": flight,
        "canal.withoutNetty": "true",
    }
    instance = {
        "canal.instance.master.address": f"{mysql8.host}:{mysql8.port}",
        "canal.instance.dbUsername": mysql8.user,
        "canal.instance.dbPassword": "${SLUICE_TEST_PASSWORD}",
        "canal.instance.filter.regex": rf"{database}\\..*",
    }
    conf = tmp_path / "conf"
    (conf / "shop").mkdir(parents=True)
    for file, keys in ((conf / "canal.properties", service), (conf / "shop" / "instance.properties", instance)):
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    defs = tmp_path / "mine" / "defs.yaml"
    defs.parent.mkdir()
    attributes = {"destination": "shop", "lake": str(tmp_path / "lake"), "snapshot": "initial"}
    defs.write_text(json.dumps({"type": "orchestration.destination.CdcDestination", "attributes": attributes}))
    log = tmp_path / "log"
    own = {"SPARK_REMOTE": "sc://127.0.0.1:1", "SLUICE_HOME": str(tmp_path), "SLUICE_TEST_PASSWORD": mysql8.password}
    command = [sys.executable, "-m", "orchestration.cli", "up", "--lake", str(tmp_path / "lake"), "--conf", str(conf)]
    command += ["--defs", str(defs), "--dagster-port", str(dagster)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROJECT, env=os.environ | own, stdout=output, stderr=output)
    one = Up(process, log, f"http://127.0.0.1:{dagster}", database)
    yield one
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    mysql8.execute(f"DROP DATABASE {database}")


@pytest.mark.timeout(600)
def test_parts_that_are_killed_are_started_again(up: Up, mysql8: MySqlServer) -> None:
    """Also while others start. A destination without tables waits for its first one; nothing ends but by Ctrl-C."""
    until(lambda: up.part("api") or up.process.poll() is not None)  # Dagster's code server starts
    service = up.part("server")
    os.kill(service or 0, signal.SIGKILL)
    until(lambda: "Ctrl-C stops everything" in up.said or up.process.poll() is not None)
    until(lambda: "the capture service runs again" in up.said, 60)
    assert "the capture service was killed by SIGKILL" in up.said
    until(lambda: "waiting_mine" in up.sensors() or up.process.poll() is not None)

    mysql8.execute(f"CREATE TABLE {up.database}.t (id int PRIMARY KEY)")
    until(lambda: "Dagster has loaded" in up.said)
    assert "cdc_shop_backlog" in up.sensors()

    for word, name in (("api", "code server"), ("dagster-daemon", "daemon"), ("dagster-webserver", "webserver")):
        before = up.part(word)
        os.kill(before or 0, signal.SIGKILL)
        until(lambda name=name: f"Dagster's {name} runs again" in up.said)
        assert up.part(word) not in (None, before)
    assert "cdc_shop_backlog" in until(up.sensors)
    parts = [child.pid for child in psutil.Process(up.process.pid).children()]
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(60) == 0
    until(lambda: not any(map(psutil.pid_exists, parts)), 60)
