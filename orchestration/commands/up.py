"""`sluice up`: the service, Spark and Dagster on the user's own configuration, source and lake."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import httpx
from rich.markup import escape

from cdc_core import config
from cdc_core.client.trust import CA_VARIABLE, authorities
from cdc_core.config import ServiceConfig
from cdc_core.contract.doors import local_doors
from cdc_core.errors import ConfigError
from orchestration.source import CONF_VARIABLE
from orchestration.stack.dagster import BROKEN, LOADABLE, WAITING, Dagster
from orchestration.stack.defs import default_folder, users_folder
from orchestration.stack.home import sluice_home
from orchestration.stack.keeping import Keeping
from orchestration.stack.metastore import metastore_in
from orchestration.stack.ports import Ports, listening
from orchestration.stack.progress import Progress
from orchestration.stack.service import Service
from orchestration.stack.spark import SPARK_PORT, SparkConnect
from orchestration.stack.warming import FOLDER, Warming, holds_claims
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.lake.catalog_names import SPARK_CATALOG
from spark_jobs.lake.tables import Lake
from spark_jobs.stores import location, scheme_of

_LOOK_SECONDS = 2.0  # between looks for destinations that can be loaded
_LOAD_SECONDS = 60.0  # that Dagster may take to load the others
_RUN_SECONDS = 60.0  # that runs may take to end before the code server is restarted


def run(conf: Path, lake: str, defs: Path | None, dagster_port: int, *, warm: bool, as_json: bool) -> int:
    """Returns after Ctrl-C. A part that ends meanwhile is started again; the error of one that cannot be is raised."""
    service, _ = config.load_service(conf)
    names = config.destinations(service)
    for name in names:
        config.load_instance(conf, name)  # a mistake in it is reported before anything starts
    Ports(service.http_port, service.flight_port, dagster_port).check_free()
    root = location(lake)
    if scheme_of(root) != "file" and not os.environ.get("SPARK_REMOTE"):
        hint = "Set SPARK_REMOTE to a Spark Connect server that has them; docs/operations.md, Object stores."
        raise ConfigError("the Spark that is started here has no jars for this store", place=root, hint=hint)
    state = sluice_home() / "up"
    own = None if defs is None else users_folder(defs, state / "defs")
    progress = Progress(quiet=as_json)
    with ExitStack() as parts:
        keeping = Keeping(parts, progress)
        _start_zookeeper(keeping, service, state)
        found, ca = local_doors(service), authorities(service.tls_ca)
        capture = Service(conf, state, url=found.http, ca=ca, wait_ready=False)
        keeping.launch(f"the capture service, {capture.url}", capture)
        remote, spark = _start_spark(parts, keeping, state, progress, root, capture.url if warm else "", ca)
        folder = own or default_folder(names, root, conf, service, remote, state / "defs")
        doors = {"SLUICE_SERVICE": found.http, "SLUICE_FLIGHT": found.flight}
        if service.tls_ca is not None:
            doors[CA_VARIABLE] = os.environ.get(CA_VARIABLE) or str(service.tls_ca.absolute())
        used = {**doors, "SPARK_REMOTE": remote, **spark}  # where a defs.yaml names none
        environment = {"SLUICE_LAKE": root, CONF_VARIABLE: str(conf.absolute()), **used}
        dagster = Dagster(state / "dagster", port=dagster_port, defs=folder, environment=environment)
        keeping.launch(f"Dagster, {dagster.url}", *dagster.processes)
        loading = Loading(dagster, keeping, progress)
        loading.check()
        if as_json:
            print(json.dumps({"dagster": dagster.url, "service": capture.url, "lake": root}), flush=True)
        progress.say(f"Dagster: {dagster.url}   service: {capture.url}/   lake: {root}\nCtrl-C stops everything.")
        with suppress(KeyboardInterrupt):
            while True:
                keeping.wait(_LOOK_SECONDS)
                loading.look()
        progress.say("stopping")
    return 0


class Loading:
    """Loads destinations into Dagster whose tables were not known when its code server started."""

    def __init__(self, dagster: Dagster, keeping: Keeping, progress: Progress) -> None:
        self._dagster = dagster
        self._keeping = keeping
        self._progress = progress
        self._waiting: dict[str, str] = {}
        self._loadable_since: float | None = None
        self._next_restart = 0.0

    def check(self) -> None:
        """Raises ConfigError for a `defs.yaml` with a mistake."""
        deadline = time.monotonic() + _LOAD_SECONDS
        while (found := self._stand_ins()) is None and time.monotonic() < deadline:
            self._keeping.wait(1.0)
        for name, description in (found or {}).get(BROKEN, {}).items():
            raise ConfigError("Dagster cannot load a destination", place=name, hint=description)
        self._note(found)

    def look(self) -> None:
        """Restarts the code server when one that waits can be loaded: when no run is under way, or soon after."""
        found, now = self._stand_ins(), time.monotonic()
        self._note(found)
        if not (found and found[LOADABLE]):
            self._loadable_since = None
            return
        self._loadable_since = self._loadable_since or now
        runs = now - self._loadable_since < _RUN_SECONDS and self._runs()
        if runs or now < self._next_restart:
            return
        self._next_restart = now + _LOAD_SECONDS
        for process in (self._dagster.code_server, self._dagster.daemon):
            self._keeping.restart(process)

    def _note(self, found: dict[str, dict[str, str]] | None) -> None:
        """Says which destinations wait now, and which do not any more."""
        if found is None:
            return
        waiting = found[WAITING]
        for name in waiting.keys() - self._waiting.keys():
            self._progress.say(f"[yellow]![/yellow] {escape(waiting[name])}")
        for name in self._waiting.keys() - waiting.keys():
            self._progress.say(f"[green]✓[/green] Dagster has loaded {name.removeprefix(WAITING)}")
        self._waiting = waiting

    def _stand_ins(self) -> dict[str, dict[str, str]] | None:
        with suppress(httpx.HTTPError, LookupError, TypeError):
            return self._dagster.stand_ins()
        return None

    def _runs(self) -> int:
        with suppress(httpx.HTTPError, LookupError, TypeError):
            return self._dagster.runs("STARTING", "STARTED", "CANCELING")
        return 0


def _start_zookeeper(keeping: Keeping, service: ServiceConfig, state: Path) -> None:
    """Starts ZooKeeper if the configuration names one on this machine and nobody listens there."""
    hosts = service.zk_servers.partition("/")[0]
    host, _, port = hosts.partition(":")
    if host in ("127.0.0.1", "localhost") and port.isdigit() and not listening(int(port)):
        keeping.launch(f"ZooKeeper, {hosts}", ZooKeeper(state / "zookeeper", int(port)))


def _start_spark(
    parts: ExitStack,
    keeping: Keeping,
    state: Path,
    progress: Progress,
    lake: str,
    service: str,
    ca: str = "",
) -> tuple[str, dict[str, str]]:
    """The value of SPARK_REMOTE, or the address of a local server that is started here, with a metastore in the lake.
    It is warmed until a client of `service` has a batch; with "" it is not. By the variables returned runs know of
    both."""
    if remote := os.environ.get("SPARK_REMOTE"):
        return remote, {}
    if listening(SPARK_PORT):
        hint = "Stop what listens there, or set SPARK_REMOTE to the cluster to use."
        raise ConfigError(f"port {SPARK_PORT} is taken", place=f"127.0.0.1:{SPARK_PORT}", hint=hint)
    Lake(lake).check_writable()
    with progress.step("Delta's and Spark's jars") as notify:
        server = SparkConnect(state / "spark", SPARK_PORT, notify, metastore=metastore_in(lake))
    claimed = partial(holds_claims, service, os.environ.get("SLUICE_TOKEN", ""), ca)
    warming = Warming(server.remote, server.scratch / FOLDER, progress, claimed)
    warming.clean()
    parts.callback(warming.clean)  # after Spark's end
    keeping.launch(f"Spark Connect, {server.remote}", server)
    parts.callback(warming.stop)
    if service:
        warming.start()
    catalog = os.environ.get("SLUICE_CATALOG", SPARK_CATALOG)
    return server.remote, {"SLUICE_CATALOG": catalog, **warming.environment}
