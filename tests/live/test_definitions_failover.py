"""Two real services on one ZooKeeper, of which one is killed again and again while definitions of tables retire: each
of several clients, one of them far behind, gets every row by its own definition."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.failover import Node, node, until

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full]

CLIENTS = (1001, 1002, 1003)
_TYPES = ("INT", "VARCHAR(20)", "BIGINT", "DECIMAL(12, 2)", "VARCHAR(300)")
_SECONDS = 240.0


@dataclass
class Writer:
    """A table whose definition is another one for each row: row n has the column `c{n}` alone, with the value n. Each
    of seven definitions comes again and again."""

    mysql: MySqlServer
    database: str
    number: int = 0

    def write(self) -> None:
        before, self.number = self.number, self.number + 1
        name, kind = f"c{self.number}", _TYPES[self.number % len(_TYPES)]
        old = f"DROP COLUMN c{before}, " if before else ""
        self.mysql.execute(
            f"ALTER TABLE t {old}ADD COLUMN {name} {kind}",
            f"INSERT INTO t (id, {name}) VALUES ({self.number}, {self.number})",
            f"ALTER TABLE again MODIFY v VARCHAR({20 + self.number % 7})",
            f"INSERT INTO again VALUES ({self.number}, '{self.number}')",
            database=self.database,
        )


@dataclass
class Reader:
    """A client that goes from claim to claim, over take-overs. `seen`: the rows of each table that came,
    acked or not: whether a server took the ack before it was killed, its client need not know."""

    connector: Connector
    database: str
    pause: float
    seen: dict[str, set[int]] = field(default_factory=lambda: {"t": set(), "again": set()})
    wrong: list[str] = field(default_factory=list)

    def read(self, over: threading.Event) -> None:
        while not over.is_set() and not self.wrong:
            with suppress(SluiceError):
                self.one_claim()
            over.wait(self.pause)

    def upto(self, number: int) -> None:
        """Until all rows up to this one came."""
        wanted, deadline = set(range(1, number + 1)), time.monotonic() + _SECONDS
        while not (self.seen["t"] >= wanted and self.seen["again"] >= wanted):
            assert not self.wrong, self.wrong
            assert time.monotonic() < deadline, (self.connector, wanted - self.seen["t"], wanted - self.seen["again"])
            with suppress(SluiceError):
                self.one_claim()

    def one_claim(self) -> None:
        with self.connector.claim(1, owner="test", timeout_seconds=1.0) as claim:
            if claim is None:
                return
            for table in claim.tables:
                name = table.schema.table
                rows = self.connector.changes(claim, table.name).read_all()
                self.seen[name] |= {int(one) for one in rows.column("id").to_pylist()}
                self.check(name, rows.to_pylist(), [column.name for column in table.schema.columns])

    def check(self, name: str, rows: list[dict[str, object]], columns: list[str]) -> None:
        for row in rows:
            number = row["id"]
            column = f"c{number}" if name == "t" else "v"
            if columns != ["id", column] or int(str(row.get(column)).partition(".")[0]) != number:
                self.wrong.append(f"{name}: {row}, whose columns are {columns}")


@dataclass
class World:
    nodes: tuple[Node, Node]
    writer: Writer
    readers: list[Reader]

    def active(self) -> Node:
        """The one that reads, once there is one."""
        until(lambda: any(one.service.running and one.reads for one in self.nodes), _SECONDS)
        return next(one for one in self.nodes if one.service.running and one.reads)

    def retired(self) -> int:
        """How often definitions retired, by the services' logs."""
        logs = {one.service.log for one in self.nodes}
        return sum(log.read_text().count("table definitions retired") for log in logs)


@pytest.fixture
def world(mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, tmp_path: Path) -> Iterator[World]:
    hosts = zookeeper.hosts + zk_root
    more = f"sluice.clients = {', '.join(map(str, CLIENTS))}\nsluice.store.bytes = 100000000\n"
    more += "sluice.store.retention.bytes = 0\n"
    with mysql8.database("definitions") as database:
        nodes = tuple(node(tmp_path / n, hosts, mysql8, database, wait_ready=False, more=more) for n in "ab")
        mysql8.execute(
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "CREATE TABLE again (id INT PRIMARY KEY, v VARCHAR(20))",
            database=database,
        )
        for one in nodes:
            one.service._command = [sys.executable, "-m", "tests.support.eager_service", *one.service._command[3:]]
        options = {"zk_servers": hosts, "follow_seconds": 60.0, "timeout_seconds": 20.0}
        connectors = [Connector(None, "shop", client_id=client, **options) for client in CLIENTS]  # type: ignore[arg-type]
        readers = [Reader(one, database, pause) for one, pause in zip(connectors, (0.0, 0.15, 0.0), strict=True)]
        made = World((nodes[0], nodes[1]), Writer(mysql8, database), readers)
        try:
            for one in nodes:
                one.service.start()
            made.active()
            yield made
        finally:
            for one in nodes:
                one.service.kill()
            for connector in connectors:
                connector.close()


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("seed", [1])
def test_rows_keep_their_definitions_over_take_overs(world: World, seed: int) -> None:
    """One client is up to date, one late, one reads nothing while the active server is killed with definitions that
    retire; whichever server it reads at last has them all."""
    rng, over = Random(seed), threading.Event()

    def all_read_one() -> int:
        world.writer.write()
        for reader in world.readers:
            reader.upto(world.writer.number)
        return world.retired()

    until(all_read_one, _SECONDS)  # what all of them have read may retire
    working = [threading.Thread(target=one.read, args=(over,)) for one in world.readers[:2]]

    def write() -> None:
        while not over.wait(0.2):
            world.writer.write()

    working.append(threading.Thread(target=write))
    for thread in working:
        thread.start()
    try:
        for _ in range(4):
            active = world.active()
            time.sleep(rng.uniform(0.5, 4.0))
            active.service.kill()
            time.sleep(rng.uniform(0, 1.0))
            active.service.start()
            world.active()
    finally:
        over.set()
        for thread in working:
            thread.join()
    for reader in world.readers:
        reader.upto(world.writer.number)
        assert not reader.wrong
    print(world.writer.number, "definitions; retired", world.retired(), "times")
