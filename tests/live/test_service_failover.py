"""Two real services: the active one is killed, paused and cut off. Nothing is lost, and nothing is done late."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from kazoo.client import KazooClient

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.errors import (
    CursorError,
    RunsElsewhere,
    RunsNowhere,
    ServiceUnavailable,
    SessionError,
    SourceUnavailable,
)
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.lake.tables import Lake
from spark_jobs.load import groups, registration
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.limits import Limits
from tests.support.failover import SESSION, Node, node, until
from tests.support.marks import mostly_full
from tests.support.plain_lake import PlainLake, replacing, rows_of
from tests.support.proxy import Gate
from tests.support.servers import free_port

pytestmark = pytest.mark.integration

CURSOR = "/otter/canal/destinations/shop/1001/cursor"
PAUSES = int(os.environ.get("SLUICE_TEST_PAUSES", "3"))  # more of them by hand
TRIES_AGAIN = (CursorError, RunsElsewhere, RunsNowhere, ServiceUnavailable, SessionError, SourceUnavailable)


class World:
    """The parts, and what was written at the source."""

    def __init__(
        self, mysql: MySqlServer, database: str, zookeeper: ZooKeeper, nodes: tuple[Node, Node], gates: list[Gate]
    ) -> None:
        self.zookeeper = zookeeper
        self.nodes = nodes
        self._gates = gates
        self._mysql = mysql
        self._database = database
        self._next = 1

    @property
    def database(self) -> str:
        return self._database

    @property
    def last(self) -> int:
        """The key of the newest row."""
        return self._next - 1

    def insert(self, count: int) -> None:
        """Inserts rows, one transaction each."""
        with self._mysql.root(self._database) as connection, connection.cursor() as cursor:
            for key in range(self._next, self._next + count):
                cursor.execute(f"INSERT INTO orders VALUES ({key}, 'x')")
        self._next += count

    def active_first(self) -> tuple[Node, Node]:
        """The active server and the standby, once all rows are read. A failed test left a server killed, or rows."""
        for one in self.nodes:
            one.service.start()
        active, other = self.roles()
        active.drain(self._mysql)
        return active, other

    def roles(self) -> tuple[Node, Node]:
        """The active server, once it reads, and the standby."""
        first, second = self.nodes
        until(lambda: {first.state, second.state} == {"running", "standby"})
        active, other = (first, second) if first.state == "running" else (second, first)
        until(lambda: active.reads)
        return active, other

    def gate(self, one: Node) -> Gate:
        """The gate between that server and ZooKeeper."""
        return self._gates[self.nodes.index(one)]

    def drain(self, active: Node, rows: int) -> None:
        """Claims and acks exactly so many rows."""
        while rows:
            claim = active.claim()
            rows -= claim.rows
            assert active.ack(claim).status_code == 200
        assert rows == 0


@pytest.fixture(scope="module")
def world(mysql8: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Both services run, the first of them active."""
    folder = tmp_path_factory.mktemp("failover")
    port = free_port()
    zookeeper = ZooKeeper(folder / "zookeeper", port).start()
    with mysql8.database() as database:
        with mysql8.root(database) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))")
        gates = [Gate(port), Gate(port)]
        nodes = tuple(node(folder / n, gate.address, mysql8, database) for n, gate in zip("ab", gates, strict=True))
        try:
            with ThreadPoolExecutor(2) as beside:
                list(beside.map(lambda one: one.service.start(), nodes))
            yield World(mysql8, database, zookeeper, (nodes[0], nodes[1]), gates)
        finally:
            for one in nodes:
                one.service.kill()
            zookeeper.kill()
            for gate in gates:
                gate.close()


@pytest.fixture
def zk(world: World) -> Iterator[KazooClient]:
    client = KazooClient(world.zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.mark.full
def test_a_snapshot_goes_on_at_the_standby(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server that knows of it is killed while the table is read. The standby knows of it too: the reader goes on
    there, or the next one does, and no group is read twice."""
    active, _ = world.active_first()
    world.insert(200)
    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1)
    monkeypatch.setattr(registration, "LEASE_SECONDS", 5.0)
    seen: list[Read] = []

    def told(read: Read) -> None:
        if len(seen) == 2:
            active.service.kill()
            world.insert(5)
        seen.append(read)

    instance, _ = config.load_instance(active.conf, "shop")
    manner = Manner(30, Limits(connections=2), read_on="driver")
    with Connector(None, "shop", zk_servers=world.zookeeper.hosts, follow_seconds=180) as connector, replacing():
        lake = PlainLake(connector, Lake(tmp_path))
        taken = Loader(connector, instance, lake.lake, lake.sessions, manner)

        def done() -> bool:
            with suppress(*TRIES_AGAIN):
                return isinstance(taken.table(world.database, "orders", report=told), Copied)
            return False

        def keys() -> list[int]:
            with suppress(*TRIES_AGAIN):
                lake.drain(1000)
            return sorted(key for key, _ in rows_of(lake.lake, lake.lake.path(world.database, "orders")))

        until(done, 300)
        until(lambda: keys() == list(range(1, world.last + 1)), 300)
    assert [read.chunks for read in seen] == sorted(read.chunks for read in seen)


def test_the_standby_takes_over_from_a_killed_server(world: World) -> None:
    """The standby dumps when the session has timed out, and hands out everything that was not acked."""
    active, other = world.active_first()
    world.insert(30)
    first = active.claim(10)
    assert active.ack(first).status_code == 200
    active.claim(10)

    active.service.kill()
    seconds = until(lambda: other.reads)
    print(f"taken over after {seconds:.2f} s, the session's time-out being {SESSION} s")

    world.drain(other, 30 - first.rows)
    active.service.start()
    until(lambda: active.state == "standby")
    refused = active.post("claims", {"batch_size": 1, "owner": "test"})
    assert (refused.status_code, refused.json()["error"]) == (503, "RunsElsewhere")
    assert other.service.url in refused.json()["hint"]


def killed_within_a_claim(connector: Connector, active: Node) -> None:
    with connector.claim(10, owner="run", timeout_seconds=60) as claim:
        assert claim is not None
        active.service.kill()


def test_a_client_follows_the_active_server(world: World) -> None:
    """A client that knows only ZooKeeper gets every row, even when the server dies during a claim."""
    active, other = world.active_first()
    seen: set[int] = set()
    with Connector(None, "shop", zk_servers=world.zookeeper.hosts) as connector:
        assert connector.http_url == active.service.url
        world.insert(40)
        first = world.last - 39
        with pytest.raises(TRIES_AGAIN):
            killed_within_a_claim(connector, active)
        until(lambda: other.reads)
        while len(seen) < 40:
            with connector.claim(10, owner="run", timeout_seconds=5) as claim:
                if claim is not None:
                    table = claim.tables[0].name
                    seen |= set(connector.changes(claim, table).read_all()["id"].to_pylist())
        assert (connector.http_url, connector.status().state) == (other.service.url, "running")
    assert seen == set(range(first, first + 40))
    active.service.start()


@pytest.mark.parametrize("round_", mostly_full(range(PAUSES), lambda round_: not round_))
def test_a_paused_server_wakes_up_harmless(world: World, zk: KazooClient, round_: int) -> None:
    """Acks that arrive before or after the pause are refused; only the other server moves the cursor."""
    active, other = world.active_first()
    world.insert(20)
    held = active.claim(10)
    active.pause()
    with ThreadPoolExecutor(4) as callers:
        waiting = [callers.submit(active.ack, held) for _ in range(4)]
        until(lambda: other.reads)
        before = zk.get(CURSOR)
        active.wake()
        late = [call.result() for call in waiting] + [active.ack(held) for _ in range(20)]

    assert all(answer.status_code in (409, 503) for answer in late), [answer.text for answer in late]
    assert zk.get(CURSOR) == before
    world.drain(other, 20)
    until(lambda: active.state == "standby")
    until(lambda: other.reads)


def test_a_server_cut_off_from_zookeeper_acks_nothing(world: World, zk: KazooClient) -> None:
    """Clients and MySQL still reach it. What it sent to ZooKeeper arrives when the network heals, and has no effect."""
    active, other = world.active_first()
    world.insert(20)
    held = active.claim(10)
    world.gate(active).shut()
    with ThreadPoolExecutor(4) as callers:
        waiting = [callers.submit(active.ack, held) for _ in range(4)]
        until(lambda: other.reads)
        before = zk.get(CURSOR)
        late = [active.ack(held) for _ in range(5)]
        world.gate(active).open()
        late += [call.result() for call in waiting] + [active.ack(held) for _ in range(5)]

    assert all(answer.status_code in (409, 503) for answer in late), [answer.text for answer in late]
    assert zk.get(CURSOR) == before
    world.drain(other, 20)
    until(lambda: active.state == "standby" and not active.get("/v1/destinations/shop").get("error", "away"))
    until(lambda: other.reads)


def test_zookeeper_restarts(world: World) -> None:
    """Acks are refused while ZooKeeper is away and the claim stays; afterwards the same server goes on with it."""
    active, _ = world.active_first()
    world.insert(5)
    held = active.claim(5)
    world.zookeeper.kill()
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(active.ack(held)))
    asking.start()
    asking.join()
    assert answers[0].status_code == 503
    world.zookeeper.start()

    again, _ = world.roles()
    if again is active:
        until(lambda: active.ack(held).status_code in (200, 409))
    world.drain(again, 0)
    world.insert(1)
    until(lambda: again.claim(100).rows)
