"""The shipped `conf/`, copied and edited as the README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from cdc_core import config
from orchestration.commands.status import statuses
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.service import Service

SHIPPED = Path(__file__).parents[3] / "conf"
RING = 256 << 20


def renamed_copy(directory: Path, name: str) -> Path:
    """A copy whose destination has another name."""
    conf = shutil.copytree(SHIPPED, directory / "conf")
    (conf / "example").rename(conf / name)
    return conf


def test_a_renamed_destination_is_the_only_one(tmp_path: Path) -> None:
    """The directory's name is enough: no list names `example`. Its ring is that of a backlog."""
    conf = renamed_copy(tmp_path, "orders")
    service, report = config.load_service(conf)
    instance, _ = config.load_instance(conf, "orders", {"MYSQL_PASSWORD": "x"})

    assert config.destinations(service) == ["orders"]
    assert (report.unknown, report.unsupported) == ((), ())
    assert instance.capacity_bytes == RING


def test_a_list_of_destinations_still_counts(tmp_path: Path) -> None:
    """An existing Canal configuration starts as it is, also with a destination whose directory is missing."""
    conf = renamed_copy(tmp_path, "orders")
    with (conf / "canal.properties").open("a") as properties:
        properties.write("\ncanal.destinations = example\n")

    assert config.destinations(config.load_service(conf)[0]) == ["example", "orders"]


@pytest.mark.integration
def test_a_renamed_destination_starts(tmp_path: Path, mysql8: MySqlServer) -> None:
    """The service is ready, and its only destination runs."""
    conf = renamed_copy(tmp_path, "orders")
    ports = {
        "canal.metrics.pull.port = 11112": free_port(),
        "sluice.flight.port = 11113": free_port(),
        "canal.port = 11111": free_port(),
    }
    edited(conf / "canal.properties", {line: f"{line.partition('=')[0]}= {port}" for line, port in ports.items()})
    edits = {"127.0.0.1:3306": f"{mysql8.host}:{mysql8.port}"}
    edited(conf / "orders" / "instance.properties", edits)
    environment = {"MYSQL_PASSWORD": mysql8.password}
    http_port = ports["canal.metrics.pull.port = 11112"]
    with Service(conf, tmp_path, http_port=http_port, environment=environment) as service:
        found = statuses(service.url)
        readiness = httpx.get(f"{service.url}/readyz")

    assert [(one.destination, one.state, one.error) for one in found] == [("orders", "running", None)]
    assert found[0].store.capacity_bytes >= RING  # on disk, where there is room
    assert readiness.status_code == 200


def edited(file: Path, replacements: dict[str, str]) -> None:
    """Replaces lines; each must be there."""
    text = file.read_text()
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
