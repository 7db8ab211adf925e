"""A service that feeds a message queue, in this process or in one of its own, in front of one database."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc_core.canal.queues.feeders import Feeders
from cdc_core.config import load_service
from cdc_core.doors.traffic import Traffic
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.process import Process


def configure(folder: Path, mysql: MySqlServer, database: str, service: str, instance: str = "") -> Path:
    """A directory with the destination `shop`, which starts at the server's present position."""
    conf = folder / "conf"
    (conf / "shop").mkdir(parents=True, exist_ok=True)
    (conf / "canal.properties").write_text(f"canal.serverMode = kafka\n{service}\n")
    journal, offset = mysql.position()
    (conf / "shop" / "instance.properties").write_text(
        f"canal.instance.master.address = {mysql.host}:{mysql.port}\n"
        f"canal.instance.master.journal.name = {journal}\n"
        f"canal.instance.master.position = {offset}\n"
        f"canal.instance.dbUsername = {mysql.user}\ncanal.instance.dbPassword = {mysql.password}\n"
        f"canal.instance.filter.regex = {database}\\\\..*\nsluice.heartbeat.seconds = 1\n{instance}\n"
    )
    return conf


@contextmanager
def queue_service(conf: Path) -> Iterator[CanalServer]:
    """In this process, without doors."""
    config, _ = load_service(conf)
    server = CanalServer(config, conf)
    server.load()
    feeders = Feeders(server, Traffic())
    server.start()
    feeders.start()
    try:
        yield server
    finally:
        feeders.stop()
        server.stop()


def queue_process(conf: Path, folder: Path, ports: tuple[int, int]) -> Process:
    """In a process of its own. `ports`: HTTP's and Flight's."""
    text = (conf / "canal.properties").read_text()
    if "canal.metrics.pull.port" not in text:
        ports_text = f"canal.metrics.pull.port = {ports[0]}\nsluice.flight.port = {ports[1]}\n"
        (conf / "canal.properties").write_text(text + ports_text)
    log = folder / "service.log"
    command = [sys.executable, "-m", "cdc_core.serve", "--conf", str(conf)]
    return Process("service", command, log=log, ready=lambda: "serving" in log.read_text(errors="replace"))


def flat(messages: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(message.value()) for message in messages]


def rows(messages: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """The kind and the values of each row, in order."""
    return [(one["type"], row) for one in flat(messages) for row in one["data"] or ()]
