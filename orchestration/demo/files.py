"""The demo's configuration of the service and of Dagster: the files that a user writes for a server of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestration.demo import shop
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import Ports

DESTINATION = "shop"
RING_KILOBYTES = 256 << 10
PASSWORD_VARIABLE = "SLUICE_DEMO_PASSWORD"  # noqa: S105  the variable's name


def write_conf(conf: Path, ports: Ports, zookeeper: str, mysql: MySqlServer, start: tuple[str, int]) -> None:
    """Writes Canal's two properties files. The password stays in the environment."""
    service = {
        "canal.ip": "127.0.0.1",
        "canal.metrics.pull.port": ports.http,
        "sluice.flight.port": ports.flight,
        "canal.withoutNetty": "true",  # nobody uses Canal's protocol here
        "canal.zkServers": zookeeper,
        "canal.instance.memory.buffer.size": RING_KILOBYTES,
        "canal.instance.memory.buffer.memunit": 1024,
    }
    instance = {
        "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
        "canal.instance.master.journal.name": start[0],
        "canal.instance.master.position": start[1],
        "canal.instance.dbUsername": mysql.user,
        "canal.instance.dbPassword": f"${{{PASSWORD_VARIABLE}}}",
        "canal.instance.filter.regex": rf"{shop.DATABASE}\\..*",
    }
    _write_properties(conf / "canal.properties", service)
    _write_properties(conf / DESTINATION / "instance.properties", instance)


def write_defs(
    defs: Path, conf: Path, ports: Ports, lake: Path, spark: str, settings: Mapping[str, object] | None = None
) -> None:
    """Writes Dagster's component. Tables begin with their rows of before the capture, so all counts must be exact.
    `settings` are more of its attributes."""
    attributes = {
        "destination": DESTINATION,
        "lake": str(lake),
        "conf": str(conf),
        "service": {"http": f"http://127.0.0.1:{ports.http}", "flight": f"grpc://127.0.0.1:{ports.flight}"},
        "spark": spark,
        "tables": [f"{shop.DATABASE}.{table}" for table in shop.TABLES],
        "complete": True,
        "snapshot": "initial",
    }
    write_component(defs / DESTINATION / "defs.yaml", attributes | dict(settings or {}))


def _write_properties(file: Path, settings: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
