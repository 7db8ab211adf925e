"""`sluice up`: the service, Spark and Dagster on the user's own configuration, source and lake."""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from cdc_core import config
from cdc_core.config import ServiceConfig
from cdc_core.errors import ConfigError
from orchestration.source import CONF_VARIABLE
from orchestration.stack.dagster import Dagster
from orchestration.stack.defs import default_folder, users_folder
from orchestration.stack.home import sluice_home
from orchestration.stack.launch import launch
from orchestration.stack.ports import Ports, listening
from orchestration.stack.progress import Progress
from orchestration.stack.service import Service
from orchestration.stack.spark import SparkConnect
from orchestration.stack.warming import FOLDER, Warming, holds_claims
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.stores import scheme_of

_SPARK_PORT = 15002  # the default of `spark` in defs.yaml


def run(conf: Path, lake: str, defs: Path | None, dagster_port: int, *, warm: bool, as_json: bool) -> int:
    """Returns after Ctrl-C."""
    service, _ = config.load_service(conf)
    names = config.destinations(service)
    for name in names:
        config.load_instance(conf, name)  # a mistake in it is reported before anything starts
    Ports(service.http_port, service.flight_port, dagster_port).check_free()
    root = lake if "://" in lake else str(Path(lake).absolute())
    if scheme_of(root) != "file" and not os.environ.get("SPARK_REMOTE"):
        hint = "Set SPARK_REMOTE to a Spark Connect server that has them; docs/operations.md, Object stores."
        raise ConfigError("the Spark that is started here has no jars for this store", place=root, hint=hint)
    state = sluice_home() / "up"
    own = None if defs is None else users_folder(defs, state / "defs")
    progress = Progress(quiet=as_json)
    with ExitStack() as parts:
        _start_zookeeper(parts, service, state, progress)
        capture = Service(conf, state, http_port=service.http_port, host=service.host, wait_ready=False)
        launch(parts, progress, f"the capture service, {capture.url}", capture)
        remote, warming = _start_spark(parts, state, progress, capture.url if warm else "")
        folder = own or default_folder(names, root, conf, service, remote, state / "defs")
        environment = {"SLUICE_LAKE": root, CONF_VARIABLE: str(conf.absolute()), **warming}
        dagster = Dagster(state / "dagster", port=dagster_port, defs=folder, environment=environment)
        launch(parts, progress, f"Dagster, {dagster.url}", dagster)
        if as_json:
            print(json.dumps({"dagster": dagster.url, "service": capture.url, "lake": root}), flush=True)
        progress.say(f"Dagster: {dagster.url}   service: {capture.url}/   lake: {root}\nCtrl-C stops everything.")
        _wait_for_ctrl_c()
        progress.say("stopping")
    return 0


def _start_zookeeper(parts: ExitStack, service: ServiceConfig, state: Path, progress: Progress) -> None:
    """Starts ZooKeeper if the configuration names one on this machine and nobody listens there."""
    hosts = service.zk_servers.partition("/")[0]
    host, _, port = hosts.partition(":")
    if host in ("127.0.0.1", "localhost") and port.isdigit() and not listening(int(port)):
        launch(parts, progress, f"ZooKeeper, {hosts}", ZooKeeper(state / "zookeeper", int(port)))


def _start_spark(parts: ExitStack, state: Path, progress: Progress, service: str) -> tuple[str, dict[str, str]]:
    """The value of SPARK_REMOTE, or the address of a local server that is started here. It is warmed until a client of
    `service` has a batch, and by the variables returned runs know of it; with "" it is not."""
    if remote := os.environ.get("SPARK_REMOTE"):
        return remote, {}
    if listening(_SPARK_PORT):
        hint = "Stop what listens there, or set SPARK_REMOTE to the cluster to use."
        raise ConfigError(f"port {_SPARK_PORT} is taken", place=f"127.0.0.1:{_SPARK_PORT}", hint=hint)
    with progress.step("Delta's and Spark's jars") as notify:
        server = SparkConnect(state / "spark", _SPARK_PORT, notify)
    claimed = partial(holds_claims, service, os.environ.get("SLUICE_TOKEN", ""))
    warming = Warming(server.remote, server.scratch / FOLDER, progress, claimed)
    warming.clean()
    parts.callback(warming.clean)  # behind Spark's end
    launch(parts, progress, f"Spark Connect, {server.remote}", server)
    parts.callback(warming.stop)
    if service:
        warming.start()
    return server.remote, warming.environment


def _wait_for_ctrl_c() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return
