"""The world of a test: two databases and two destinations; the service with its doors runs in this process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog
from kazoo.client import KazooClient

from cdc_core import log
from cdc_core.config import load_service
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.serve import token_of
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.bad_input.disk import mount, unmount
from tests.bad_input.proxy import DamagingProxy
from tests.bad_input.world import MakeWorld, World, until, write_properties


@pytest.fixture
def make_world(mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, tmp_path: Path) -> Iterator[MakeWorld]:
    """`make_world(shop={key: value}, service={key: value}, wait=False)` adds lines to the properties files."""
    with ExitStack() as ends:
        databases = {name: ends.enter_context(mysql8.database(name)) for name in ("shop", "other")}
        for database in databases.values():
            mysql8.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, note VARCHAR(40))", database=database)
        hosts = zookeeper.hosts + zk_root
        client = KazooClient(hosts)
        ends.callback(structlog.reset_defaults)

        def make(
            shop: dict[str, object] | None = None, service: dict[str, object] | None = None, *, wait: bool = True
        ) -> World:
            stream = io.StringIO()
            log.configure(stream, as_json=True)
            world = _world(
                mysql8, tmp_path, databases, shop or {}, {"canal.zkServers": hosts} | (service or {}), stream
            )
            world.zookeeper = client
            ends.callback(_stop, world)
            _start(world)
            client.start()
            ends.callback(client.close)
            ends.callback(client.stop)
            for name in ("shop", "other") if wait else ("other",):
                until(lambda name=name: world.status(name)["state"] == "running", lambda: world.status())
            world.write_defs()
            return world

        yield make


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Both destinations running, connected to MySQL directly."""
    return make_world()


@pytest.fixture
def proxy(mysql8: MySqlServer) -> Iterator[DamagingProxy]:
    made = DamagingProxy(mysql8.port, mysql8.host)
    yield made
    made.close()


@pytest.fixture
def proxied(make_world: MakeWorld, proxy: DamagingProxy) -> World:
    """`shop` reads through the proxy."""
    return make_world({"canal.instance.master.address": proxy.address})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room. Skips where it cannot be mounted."""
    path = tmp_path / "disk"
    if not mount(path, "1m"):
        pytest.skip("mounting a small file system needs root")
    yield path
    unmount(path)


def _world(
    mysql: MySqlServer,
    folder: Path,
    databases: dict[str, str],
    shop: dict[str, object],
    service: dict[str, object],
    stream: io.StringIO,
) -> World:
    journal, offset = mysql.position()
    keys: dict[str, dict[str, object]] = {}
    for name, database in databases.items():
        keys[name] = {
            "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
            "canal.instance.master.journal.name": journal,
            "canal.instance.master.position": offset,
            "canal.instance.master.sslMode": "DISABLED",  # the proxy changes what it carries
            "canal.instance.dbUsername": mysql.user,
            "canal.instance.dbPassword": mysql.password,
            "canal.instance.filter.regex": rf"{database}\\..*",
            "sluice.heartbeat.seconds": 1,
        }
    keys["shop"] |= shop
    general: dict[str, object] = {"canal.auto.scan.interval": 1, "canal.file.data.dir": folder / "data"}
    write_properties(folder / "conf" / "canal.properties", general | service)
    for name, lines in keys.items():
        write_properties(folder / "conf" / name / "instance.properties", lines)
    config = load_service(folder / "conf", {})[0]
    made = CanalServer(config, folder / "conf", pauses=(0.2, 0.5))
    token = token_of(config)
    doors = HttpDoor(made, "127.0.0.1", 0, token), FlightDoor(made, "127.0.0.1", 0, token)
    return World(mysql, folder, databases, keys, None, stream, made, doors, token=token)


def _start(world: World) -> None:
    world.server.load()
    for door in world.doors:
        door.start()
    world.server.start()


def _stop(world: World) -> None:
    for door in world.doors:
        door.stop()
    world.server.stop()
