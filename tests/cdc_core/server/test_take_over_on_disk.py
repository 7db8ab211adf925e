"""Two servers with a store on disk each, on one ZooKeeper: who takes over reads from the source what its own lacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.config import load_service
from cdc_core.errors import SluiceError
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.captures import CLIENT, execute

pytestmark = pytest.mark.integration

Make = Callable[[int], CanalServer]
OWNER = "test"


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    """A database with one table."""
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE orders (id INT PRIMARY KEY)")
        yield name


@pytest.fixture
def make(mysql8: MySqlServer, shop: str, zookeeper: ZooKeeper, zk_root: str, tmp_path: Path) -> Iterator[Make]:
    """Makes a server, started. One that is made again finds the directories of the one before it."""
    made: list[CanalServer] = []

    def server(number: int) -> CanalServer:
        conf = tmp_path / str(number)
        (conf / "shop").mkdir(parents=True, exist_ok=True)
        (conf / "canal.properties").write_text(
            f"canal.zkServers = {zookeeper.hosts + zk_root}\ncanal.port = {21000 + number}\n"
            f"sluice.zk.session.seconds = 2\ncanal.auto.scan = false\ncanal.destinations = shop\n"
            f"canal.metrics.pull.port = {22000 + number}\n"
        )
        (conf / "shop" / "instance.properties").write_text(
            f"canal.instance.master.address = {mysql8.host}:{mysql8.port}\n"
            f"canal.instance.dbUsername = {mysql8.user}\ncanal.instance.dbPassword = {mysql8.password}\n"
            f"canal.instance.filter.regex = {shop}\\\\..*\nsluice.store.bytes = 100000000\n"
        )
        made.append(CanalServer(load_service(conf, {})[0], conf, pauses=(0.2, 1.0)))
        made[-1].start()
        return made[-1]

    yield server
    for one in made:
        one.stop()


def until(condition: Callable[[], Any], server: CanalServer) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, server.destination("shop").status()
        time.sleep(0.05)


def running(server: CanalServer) -> bool:
    return server.destination("shop").status().state == "running"


def standing_by(server: CanalServer) -> bool:
    status = server.destination("shop").status()
    return status.state == "standby" and status.active is not None and bool(status.active.address)


def drained(server: CanalServer, rows: int) -> int:
    """Claims and acks until so many rows came, and takes what comes then too."""
    seen, deadline = 0, time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            service = server.destination("shop").service()
            found = service.claim(CLIENT, 1, 10 if seen < rows else 1, OWNER, 60)
        except SluiceError:  # it has the seat, and no connection yet
            time.sleep(0.1)
            continue
        if found is not None:
            seen += found.rows
            service.ack(CLIENT, found.batch_id, OWNER)
        elif seen >= rows:
            break
    return seen


def test_what_a_server_lacks_comes_from_the_source(mysql8: MySqlServer, shop: str, make: Make, tmp_path: Path) -> None:
    """There and back: the second has nothing on disk, and the first has less than was acked meanwhile. Each row comes
    once."""
    first = make(1)
    until(lambda: running(first), first)
    second = make(2)
    until(lambda: standing_by(second), second)
    for number in range(4):
        execute(mysql8, shop, f"INSERT INTO orders VALUES ({number})")
    until(lambda: first.destination("shop").status().backlog_rows == 4, first)
    service = first.destination("shop").service()
    claims = [service.claim(CLIENT, 1, 10, OWNER, 60) for _ in range(2)]
    assert claims[0] is not None
    service.ack(CLIENT, claims[0].batch_id, OWNER)
    first.stop()  # the second claim is lost with it

    until(lambda: running(second), second)
    assert drained(second, 3) == 3
    first = make(1)
    until(lambda: standing_by(first), first)
    execute(mysql8, shop, *(f"INSERT INTO orders VALUES ({number})" for number in range(4, 7)))
    execute(mysql8, shop, "INSERT INTO orders VALUES (7)")
    until(lambda: second.destination("shop").status().backlog_rows == 4, second)
    second.stop()

    until(lambda: running(first), first)
    assert drained(first, 4) == 4
    for number in (1, 2):
        assert list((tmp_path / str(number) / "store" / "shop").glob("*.volume"))
