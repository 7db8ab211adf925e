"""`sluice up`: the stack on the user's own configuration, source and lake."""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path

from cdc_core import config
from cdc_core.config import ServiceConfig
from cdc_core.errors import ConfigError
from orchestration.stack.dagster import Dagster
from orchestration.stack.demo_files import write_component
from orchestration.stack.home import listening, sluice_home
from orchestration.stack.ports import Ports
from orchestration.stack.progress import Progress
from orchestration.stack.service import Service
from orchestration.stack.spark import SparkConnect
from orchestration.stack.zookeeper import ZooKeeper

_SPARK_PORT = 15002  # the default of `spark` in defs.yaml


def run(conf: Path, lake: str, defs: Path | None, dagster_port: int, *, as_json: bool) -> int:
    """Returns after Ctrl-C."""
    service, _ = config.load_service(conf)
    names = config.destinations(service)
    for name in names:
        config.load_instance(conf, name)  # a mistake in it is told before anything starts
    Ports(service.http_port, service.flight_port, dagster_port).check_free()
    root = lake if "://" in lake else str(Path(lake).absolute())
    state = sluice_home() / "up"
    progress = Progress(quiet=as_json)
    with ExitStack() as parts:
        _zookeeper(parts, service, state, progress)
        process = Service(conf, state, http_port=service.http_port, host=service.host, wait_ready=False)
        parts.callback(process.stop)
        with progress.step(f"the capture service, {process.url}"):
            process.start()
        remote = _spark(parts, state, progress)
        folder = defs_folder(defs, state, names, root, service, remote)
        dagster = Dagster(state / "dagster", port=dagster_port, defs=folder, environment={"SLUICE_LAKE": root})
        parts.callback(dagster.stop)
        with progress.step(f"Dagster, {dagster.url}"):
            dagster.start()
        if as_json:
            print(json.dumps({"dagster": dagster.url, "service": process.url, "lake": root}), flush=True)
        progress.say(f"Dagster: {dagster.url}   service: {process.url}/   lake: {root}\nCtrl-C stops everything.")
        _wait_for_ctrl_c()
        progress.say("stopping")
    return 0


def defs_folder(
    defs: Path | None, state: Path, names: list[str], lake: str, service: ServiceConfig, spark: str
) -> Path:
    """The folder that Dagster loads: the user's, or one made for a single file, or for all that is configured."""
    if defs is not None and defs.is_dir():
        return defs.absolute()
    made = state / "defs"
    for old in made.glob("*/defs.yaml"):
        old.unlink()
    if defs is not None:
        if not defs.is_file():
            raise ConfigError("no such file", place=str(defs), hint="Give a defs.yaml, or a folder of */defs.yaml.")
        copy = made / (defs.absolute().parent.name or "own") / "defs.yaml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(defs.read_bytes())
        return made
    http, flight = f"http://{service.host}:{service.http_port}", f"grpc://{service.host}:{service.flight_port}"
    for name in names:
        doors = {"http": http, "flight": flight}
        write_component(
            made / name / "defs.yaml", {"destination": name, "lake": lake, "service": doors, "spark": spark}
        )
    return made


def _zookeeper(parts: ExitStack, service: ServiceConfig, state: Path, progress: Progress) -> None:
    """One of our own where the configuration names this machine and nobody answers there."""
    hosts = service.zk_servers.partition("/")[0]
    host, _, port = hosts.partition(":")
    if host not in ("127.0.0.1", "localhost") or not port.isdigit() or listening(int(port)):
        return
    with progress.step(f"ZooKeeper, {hosts}"):
        server = ZooKeeper(state / "zookeeper", int(port))
        parts.callback(server.stop)
        server.start()


def _spark(parts: ExitStack, state: Path, progress: Progress) -> str:
    """SPARK_REMOTE where it is set, else a local server."""
    if remote := os.environ.get("SPARK_REMOTE"):
        return remote
    if listening(_SPARK_PORT):
        hint = "Stop what listens there, or set SPARK_REMOTE to the cluster to use."
        raise ConfigError(f"port {_SPARK_PORT} is taken", place=f"127.0.0.1:{_SPARK_PORT}", hint=hint)
    with progress.step(f"Spark Connect, sc://127.0.0.1:{_SPARK_PORT}") as notify:
        server = SparkConnect(state / "spark", _SPARK_PORT, notify)
        parts.callback(server.stop)
        return server.start().remote


def _wait_for_ctrl_c() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return
