"""Malformed files: each error names file, line and key, and stops only what the file is about."""

from __future__ import annotations

import socket
import subprocess
import sys

import dagster as dg
import pytest

from cdc_core.errors import ConfigError
from orchestration.loading import load_folder
from tests.bad_input.world import World, until, write_properties

pytestmark = pytest.mark.integration

PROPERTIES = [
    ("canal.instance.memory.buffer.size = many", "canal.instance.memory.buffer.size", "remove it for the default"),
    ("canal.instance.master.address = a:b:c", "canal.instance.master.address", "Correct canal.instance.master.address"),
    ("canal.instance.dbPassword = ${NO_SUCH_NAME}", "canal.instance.dbPassword", "Set NO_SUCH_NAME"),
    ("canal.instance.defaultDatabaseName = \\u12", "", "Write a backslash as"),
]


@pytest.mark.in_turn
def test_a_malformed_properties_file(world: World) -> None:
    """Each malformed file stops its own destination in a running service; the sound file starts it again."""
    world.sql("INSERT INTO orders VALUES (1, 'waits')")
    until(lambda: world.status()["backlog_rows"] == 1, world.status)
    before = world.cursor()
    file = world.folder / "conf" / "shop" / "instance.properties"
    sound = file.read_text()

    for line, key, hint in PROPERTIES:
        file.write_text(f"# ours\n{line}\n")
        place = f"{file}:2" + (f": {key}" if key else "")
        until(lambda place=place: str((world.status()["error"] or {}).get("place")).endswith(place), world.status)
        world.reports("ConfigError", "", place, hint)
        world.other_goes_on()
        assert world.cursor() == before

    file.write_text(sound)
    world.healed()
    assert world.drain() == [(1, "waits")]


def test_a_filter_that_does_not_compile(world: World) -> None:
    """The error shows when the filter is first used."""
    world.keys["shop"]["canal.instance.filter.regex"] = "shop.("
    world.configure()

    world.reports("ConfigError", "", "canal.instance.filter.regex", "")

    world.other_goes_on()


def test_a_malformed_service_file_ends_the_start(world: World) -> None:
    """The process names file, line and key, and ends."""
    conf = world.folder / "wrong"
    write_properties(conf / "canal.properties", {"canal.ip": "127.0.0.1", "canal.metrics.pull.port": "http"})

    ended = started(conf)

    assert ended.returncode == 1
    assert f"{conf / 'canal.properties'}:2: canal.metrics.pull.port" in ended.stderr
    assert "remove it for the default (11112)" in ended.stderr


@pytest.mark.in_turn
def test_a_port_that_is_taken_ends_the_start(world: World) -> None:
    """Each door names the address and the key to change before any source is read."""
    for key in ("canal.metrics.pull.port", "sluice.flight.port", "canal.port"):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            conf = world.folder / f"taken-{port}"
            ports = {"canal.metrics.pull.port": 0, "sluice.flight.port": 0, "canal.port": 0, key: port}
            write_properties(conf / "canal.properties", dict(ports))

            ended = started(conf)

        assert ended.returncode == 1
        assert f"127.0.0.1:{port}" in ended.stderr
        assert key in ended.stderr


def started(conf: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cdc_core.serve", "--conf", str(conf)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_malformed_defs_file(world: World) -> None:
    """Dagster shows a sensor that fails with file, line and key; the other destination can run."""
    world.write_defs("shop", batch_size="many")
    world.write_defs("other")
    before = world.cursor()
    file = world.folder / "defs" / "shop" / "defs.yaml"
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "batch_size" in text)

    loaded = load_folder(world.folder / "defs")

    broken = loaded.resolve_sensor_def("broken_shop")
    with pytest.raises(Exception) as caught:
        broken.evaluate_tick(dg.build_sensor_context(instance=world.instance))
    told = caught.value if isinstance(caught.value, ConfigError) else caught.value.__cause__
    assert isinstance(told, ConfigError)
    assert "batch_size: Input should be a valid integer" in told.message
    assert told.place == f"{file}:{line}"
    assert "Correct the file" in told.hint
    assert str(told) in (broken.description or "")
    assert world.run("other").success
    assert world.cursor() == before
    world.write_defs("shop")
    assert world.run("shop").success
