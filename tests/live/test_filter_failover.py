"""Two real services on one ZooKeeper that are configured with different filters, killed also in the middle of a start:
each table of the lake is right, or stopped with its remedy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from kazoo.client import KazooClient

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import FILTERED_OUT
from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.lake.tables import Lake
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.result import Copied
from tests.support.failover import Node, node, until
from tests.support.marks import tiers
from tests.support.plain_lake import PlainLake, replacing, rows_of
from tests.support.reading import nothing_between

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

TABLES = ("always", "keyed", "copies")
_FILTERS = (TABLES, ("always",), ("always", "keyed"), ("always", "copies"))
_HOME = "/otter/canal/destinations/shop"
_MOMENTS = ("/running", "/sluice_leader", "/1001/captured", "/1001/cursor")  # nodes that a start writes
_SECONDS = 180.0


@dataclass
class World:
    """Two services and a lake."""

    mysql: MySqlServer
    database: str
    nodes: tuple[Node, Node]
    connector: Connector
    lake: PlainLake
    zk: KazooClient
    rng: Random
    number: int = 0

    def change(self) -> None:
        """An update, a delete and an insert of each table."""
        self.number += 1
        for table in TABLES:
            self.mysql.execute(
                f"UPDATE {table} SET v = v + 1 WHERE a % 7 = {self.number % 7}",
                f"DELETE FROM {table} WHERE a = {self.number}",
                f"INSERT INTO {table} VALUES ({self.number + 1000}, {self.number})",
                database=self.database,
            )

    def roles(self) -> tuple[Node, Node]:
        """The active server, once it reads, and the standby."""
        first, second = self.nodes
        until(lambda: {first.state, second.state} == {"running", "standby"}, _SECONDS)
        active, other = (first, second) if first.state == "running" else (second, first)
        until(lambda: active.reads, _SECONDS)
        return active, other

    def configure(self, one: Node, tables: tuple[str, ...]) -> None:
        """Starts a server that is down with this filter."""
        regex = rf"{self.database}\\.({'|'.join(tables)})"
        with (one.conf / "shop" / "instance.properties").open("a") as file:
            file.write(f"canal.instance.filter.regex = {regex}\n")
        one.service.start()

    def drain(self) -> None:
        """Applies what the source has written by now."""
        end, deadline = EntryPosition(*self.mysql.position()), time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            with suppress(SluiceError):
                self.lake.drain(self.rng.choice((5, 50, 1000)))
                if nothing_between(self.mysql, self.connector.client_status().cursor, end):
                    return
        raise AssertionError(self.connector.status())

    def state(self) -> dict[str, str]:
        """How the lake's tables are: equal, wrong, or why they are stopped."""
        stopped = {stop.table.partition(".")[2]: stop for stop in self.connector.client_status().stopped}
        found = {}
        for table in TABLES:
            stop = stopped.get(table)
            if stop is not None:
                assert f"{self.database}.{table}" in stop.hint, stop
                found[table] = stop.reason
            else:
                found[table] = "equal" if self.is_equal(table) else "wrong"
        return found

    def is_equal(self, table: str) -> bool:
        with self.mysql.root(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT a, v FROM {table}")
            source = sorted(cursor.fetchall())
        return sorted(rows_of(self.lake.lake, self.lake.lake.path(self.database, table))) == source

    def repair(self) -> None:
        """The remedy of each stop."""
        active, _ = self.roles()
        instance, _ = config.load_instance(active.conf, "shop")
        loader = Loader(self.connector, instance, self.lake.lake, self.lake.sessions, Manner(read_on="driver"))
        with replacing():
            for stop in self.connector.client_status().stopped:
                assert isinstance(loader.copy(*stop.table.split(".")), Copied)


@pytest.fixture
def world(mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, zk: KazooClient, tmp_path: Path) -> Iterator[World]:
    """The first service is active and captures all; the lake has every table's rows."""
    hosts = zookeeper.hosts + zk_root
    with mysql8.database("filters") as database:
        nodes = tuple(node(tmp_path / name, hosts, mysql8, database, wait_ready=False) for name in "ab")
        rows = ", ".join(f"({number}, 0)" for number in range(1, 40))
        for table in TABLES:
            key = "" if table == "copies" else " PRIMARY KEY"
            mysql8.execute(f"CREATE TABLE {table} (a INT{key}, v INT)", database=database)
            mysql8.execute(f"INSERT INTO {table} VALUES {rows}", database=database)
        with Connector(None, "shop", zk_servers=hosts, follow_seconds=120, timeout_seconds=30) as connector:
            lake = PlainLake(connector, Lake(tmp_path / "lake", complete=True))
            made = World(mysql8, database, (nodes[0], nodes[1]), connector, lake, zk, Random(0))
            try:
                for one in made.nodes:
                    made.configure(one, TABLES)
                made.roles()
                made.drain()
                assert made.state() == dict.fromkeys(TABLES, "equal")
                yield made
            finally:
                for one in made.nodes:
                    one.service.kill()


@pytest.mark.in_turn(2)
def test_a_take_over_with_another_filter(world: World) -> None:
    """The second server captures one table: the others stay as they were, without a stop. The first one comes back
    with all of them: what changed meanwhile is missing, so they stop, and are equal after their copy."""
    active, other = world.roles()
    other.service.kill()
    world.configure(other, ("always",))
    world.roles()
    world.change()
    active.service.kill()
    until(lambda: other.reads, _SECONDS)
    world.change()
    world.drain()
    assert world.state() == {"always": "equal", "keyed": "wrong", "copies": "wrong"}  # as they were when they left
    assert world.connector.client_status().stopped == ()

    active.service.start()
    world.roles()
    other.service.kill()
    until(lambda: active.reads, _SECONDS)
    world.change()
    world.drain()
    assert world.state() == {"always": "equal", "keyed": FILTERED_OUT, "copies": FILTERED_OUT}
    other.service.start()
    world.repair()
    world.change()
    world.drain()
    assert world.state() == dict.fromkeys(TABLES, "equal")


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("seed", tiers([1], turns=[2]))
def test_kills_in_the_middle_of_a_start(world: World, seed: int) -> None:
    """A server that takes over with another filter is killed when it has just written one of its nodes, and the next
    one has yet another filter. At the end all are captured: no table is wrong without a stop."""
    world.rng.seed(seed)
    for _ in range(4):
        active, other = world.roles()
        other.service.kill()
        world.configure(other, world.rng.choice(_FILTERS))
        world.roles()
        world.change()
        if world.rng.random() < 0.7:
            world.lake.drain(1000)
        world.change()
        moment = world.rng.choice(_MOMENTS)
        before = written(world.zk, moment)
        active.service.kill()
        with suppress(AssertionError):  # a filter that is not another one writes no note
            until(lambda: written(world.zk, moment) > before, 15)  # noqa: B023
        time.sleep(world.rng.uniform(0, 0.1))
        other.service.kill()
        print("killed at", moment)
        world.change()
        world.configure(active, world.rng.choice(_FILTERS))
        until(lambda: active.reads, _SECONDS)  # noqa: B023
        world.change()
        if world.rng.random() < 0.5:
            world.drain()
        other.service.start()
    active, other = world.roles()
    for one in (other, active):
        one.service.kill()
        world.configure(one, TABLES)
    world.roles()
    world.change()
    world.drain()
    found = world.state()
    print(found)
    assert found["always"] == "equal"
    assert "wrong" not in found.values()
    assert set(found.values()) <= {"equal", FILTERED_OUT}
    world.repair()
    world.change()
    world.drain()
    assert world.state() == dict.fromkeys(TABLES, "equal")


def written(zk: KazooClient, moment: str) -> int:
    """The last transaction that wrote a node; 0 without one."""
    found = zk.exists(_HOME + moment)
    return int(found.mzxid) if found else 0
