"""`sluice up` on a real source, with real processes, as a child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from cdc_core.client.trust import Trust
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port

PROJECT = Path(__file__).parents[2]


@dataclass
class Up:
    """The command, what it has said so far, and its parts by a word of their command lines."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str
    database: str
    http_port: int

    @property
    def said(self) -> str:
        return self.log.read_text()

    def part(self, word: str) -> int | None:
        """The leader of the group of the part whose command line has the word."""
        for child in psutil.Process(self.process.pid).children():
            if any(word in argument for argument in child.cmdline()):
                return child.pid
        return None

    def runs(self, status: str) -> int:
        """How many runs are in this state."""
        found = self._query(f"{{runsOrError(filter: {{statuses: [{status}]}}) {{... on Runs {{count}}}}}}")
        return int(found["runsOrError"]["count"])

    def sensors(self) -> set[str]:
        selector = '{repositoryName: "__repository__", repositoryLocationName: "sluice"}'
        query = f"{{sensorsOrError(repositorySelector: {selector}) {{... on Sensors {{results {{name}}}}}}}}"
        return {sensor["name"] for sensor in self._query(query)["sensorsOrError"].get("results", [])}

    def _query(self, query: str) -> dict[str, Any]:
        answer = httpx.post(
            f"{self.url}/graphql", json={"query": query}, timeout=30, trust_env=False, verify=Trust().context()
        )
        return dict(answer.json()["data"])


@contextmanager
def launched(
    mysql8: MySqlServer, tmp_path: Path, spark_remote: str, keys: Mapping[str, object] | None = None
) -> Iterator[Up]:
    """Of a database without a table, on ports of its own; the defs.yaml names neither the service nor Spark. `keys` are
    more lines of canal.properties."""
    http, flight, dagster = free_port(), free_port(), free_port()
    database = f"up_{http}"
    mysql8.execute(f"CREATE DATABASE {database}")
    service = {
        "canal.ip": "127.0.0.1",
        "canal.metrics.pull.port": http,
        "sluice.flight.port": flight,
        "canal.withoutNetty": "true",
        **(keys or {}),
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
    own = {"SPARK_REMOTE": spark_remote, "SLUICE_HOME": str(tmp_path), "SLUICE_TEST_PASSWORD": mysql8.password}
    command = [sys.executable, "-m", "orchestration.cli", "up", "--lake", str(tmp_path / "lake"), "--conf", str(conf)]
    command += ["--defs", str(defs), "--dagster-port", str(dagster)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROJECT, env=os.environ | own, stdout=output, stderr=output)
    try:
        yield Up(process, log, f"http://127.0.0.1:{dagster}", database, http)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        mysql8.execute(f"DROP DATABASE {database}")
