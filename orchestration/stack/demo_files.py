"""What the demo writes for the service and for Dagster: the files that a user writes for a server of their own."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from orchestration.stack import shop
from orchestration.stack.mysql import MySqlServer
from orchestration.stack.ports import Ports

DESTINATION = "shop"
PASSWORD_VARIABLE = "SLUICE_DEMO_PASSWORD"  # noqa: S105  the variable's name


def write_conf(conf: Path, ports: Ports, zookeeper: str, mysql: MySqlServer, start: tuple[str, int]) -> None:
    """Canal's two properties files. The password stays in the environment."""
    service = {
        "canal.ip": "127.0.0.1",
        "canal.metrics.pull.port": ports.http,
        "sluice.flight.port": ports.flight,
        "canal.zkServers": zookeeper,
        "canal.destinations": DESTINATION,
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


def write_defs(defs: Path, ports: Ports, lake: Path, spark: str) -> None:
    """Dagster's component. The lake starts with the source's first row, so its counts must be exact."""
    attributes = {
        "destination": DESTINATION,
        "lake": str(lake),
        "service": {"http": f"http://127.0.0.1:{ports.http}", "flight": f"grpc://127.0.0.1:{ports.flight}"},
        "spark": spark,
        "tables": [f"{shop.DATABASE}.{table}" for table in shop.TABLES],
        "complete": True,
        "parallelism": min(4, os.cpu_count() or 4),  # more than cores get into each other's way
    }
    write_component(defs / DESTINATION / "defs.yaml", attributes)


def write_component(file: Path, attributes: dict[str, object]) -> None:
    """One destination's `defs.yaml`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    component = {"type": "orchestration.destination.CdcDestination", "attributes": attributes}
    file.write_text(yaml.safe_dump(component, sort_keys=False))


def _write_properties(file: Path, settings: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
