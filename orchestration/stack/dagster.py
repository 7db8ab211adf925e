"""Dagster as three child processes: a code server, and the webserver and the daemon that share it.

One shared code server saves a third of the memory and of the start-up time on a small machine.
A changed `defs.yaml` takes effect at the next start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Self

import httpx

from cdc_core.client.trust import Trust
from cdc_core.errors import ConfigError
from orchestration.names import RUNS_KEPT_DAYS, RUNS_KEPT_VARIABLE
from orchestration.stack.home import PROJECT
from orchestration.stack.instance import LOCATION, write_instance, write_workspace
from orchestration.stack.ports import answers, free_port, listening
from orchestration.stack.process import Process

BROKEN, WAITING = "broken_", "waiting_"
"""How the name of a sensor begins that stands for a file: one with a mistake, one whose tables are not known yet."""
LOADABLE = "its tables are known now: reload this code location"
"""What a tick of the latter says then."""

_MODULE = "orchestration.definitions"
_START_SECONDS, _EACH_SECONDS = 240.0, 2.0  # that Dagster may take to start, and more for each destination


class Dagster:
    """`url` is the page for people. `home` keeps runs and events over restarts: `records` and `ticks` in it are SQLite
    files. `defs` holds `*/defs.yaml`."""

    def __init__(
        self,
        home: Path,
        *,
        port: int = 3000,
        defs: Path,
        environment: dict[str, str] | None = None,
        module: str = _MODULE,
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.home = home
        self._timeout = _START_SECONDS + _EACH_SECONDS * len([*defs.glob("*/defs.yaml"), *defs.glob("*/defs.yml")])
        self._code_port = free_port()
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            RUNS_KEPT_VARIABLE: os.environ.get(RUNS_KEPT_VARIABLE, f"{RUNS_KEPT_DAYS:g}"),
            **(environment or {}),
            "DAGSTER_HOME": str(home),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "SLUICE_DEFS": str(defs),
        }
        workspace = write_workspace(home, self._code_port)
        code = [sys.executable, "-m", "orchestration.stack.code_server", "-m", module, "-h", "127.0.0.1"]
        code += ["-p", str(self._code_port), "-d", str(PROJECT), "--location-name", LOCATION]
        web = [_program("dagster-webserver"), "-h", "127.0.0.1", "-p", str(port), "-w", str(workspace)]
        daemon = [_program("dagster-daemon"), "run", "-w", str(workspace)]
        write_instance(home)
        self.code_server = self._process("Dagster's code server", code, "code.log", environment)
        self.webserver = self._process("Dagster's webserver", web, "webserver.log", environment)
        self.daemon = self._process("Dagster's daemon", daemon, "daemon.log", environment)

    def __repr__(self) -> str:
        return f"<Dagster {self.url} {'running' if self.daemon.running else 'stopped'}>"

    @property
    def processes(self) -> tuple[Process, ...]:
        return self.code_server, self.daemon, self.webserver

    def start(self) -> Self:
        """Raises ConfigError for a destination that is not loaded."""
        for process in self.processes:
            process.start()
        found = self.stand_ins() or {}
        for name, description in {**found.get(BROKEN, {}), **found.get(WAITING, {})}.items():
            raise ConfigError("Dagster cannot load a destination", place=name, hint=description)
        return self

    def stop(self) -> None:
        """Stops the daemon first, so that it starts no more runs. Runs end with the code server."""
        for process in (self.daemon, self.webserver, self.code_server):
            process.stop()

    def stand_ins(self) -> dict[str, dict[str, str]] | None:
        """Returns the sensors that stand for files which are not loaded, with the reason, under BROKEN and WAITING; the
        files that would be loaded now under LOADABLE. None if no code location answers."""
        selector = '{repositoryName: "__repository__", repositoryLocationName: "sluice"}'
        fields = "name description sensorState {ticks(limit: 1) {skipReason}}"
        query = f"{{sensorsOrError(repositorySelector: {selector}) {{... on Sensors {{results {{{fields}}}}}}}}}"
        sensors = self._query(query)["sensorsOrError"].get("results")
        if sensors is None:
            return None
        found: dict[str, dict[str, str]] = {BROKEN: {}, WAITING: {}, LOADABLE: {}}
        for sensor in sensors:
            name, description = sensor["name"], sensor["description"] or ""
            kind = next((kind for kind in (BROKEN, WAITING) if name.startswith(kind)), None)
            if kind is not None:
                found[kind][name] = description
            if kind == WAITING and any(tick["skipReason"] == LOADABLE for tick in sensor["sensorState"]["ticks"]):
                found[LOADABLE][name] = description
        return found

    def runs(self, *statuses: str) -> int:
        """The number of runs in one of these states."""
        answer = self._query(
            f"{{runsOrError(filter: {{statuses: [{', '.join(statuses)}]}}) {{... on Runs {{count}}}}}}"
        )
        return int(answer["runsOrError"].get("count", 0))

    def failed_runs(self) -> int:
        """The number of runs that have failed."""
        return self.runs("FAILURE")

    def _query(self, query: str) -> dict[str, Any]:
        body, tls = {"query": query}, Trust().context()  # shared, as it takes 20 ms to make
        answer = httpx.post(f"{self.url}/graphql", json=body, timeout=30, trust_env=False, verify=tls)
        return dict(answer.raise_for_status().json()["data"])

    def _process(self, name: str, command: list[str], log: str, environment: dict[str, str]) -> Process:
        readiness = {
            "code.log": lambda: listening(self._code_port),
            "webserver.log": lambda: answers(f"{self.url}/server_info"),
            "daemon.log": lambda: self.daemon.running,
        }
        return Process(
            name,
            command,
            log=self.home / log,
            ready=readiness[log],
            environment=environment,
            directory=PROJECT,
            timeout=self._timeout,
        )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))
