"""A Java Canal server and a Sluice server take turns on one destination. Each goes on from the cursor of the other, and
no row is lost."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from cdc_core.client.connector import Connector
from cdc_core.ha.running import Running, destination_path
from cdc_core.position import LogPosition
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.bench.canal import client, configure, home, launch
from tests.support.failover import node, until
from tests.support.servers import free_port

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(home() is None, reason="CANAL_HOME names no unpacked Canal deployer (docs/benchmarks.md)"),
]

RUNNING, CURSOR = destination_path("shop", "running"), destination_path("shop", "1001", "cursor")
SESSION_OF_CANAL = 120  # seconds, at most, until ZooKeeper ends a killed one's: it asks for 90, and gets 60 here


class Rows:
    """Rows written one by one throughout; `seen` are those that any client received."""

    def __init__(self, mysql: MySqlServer) -> None:
        self.written = 0
        self.seen: set[int] = set()
        self._mysql = mysql
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        with self._mysql.root("shop") as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.02):
                cursor.execute("INSERT INTO orders VALUES (%s)", (self.written + 1,))
                self.written += 1

    @property
    def missing(self) -> set[int]:
        return set(range(1, self.written + 1)) - self.seen

    def more(self, count: int = 100) -> Callable[[], bool]:
        """Whether so many more rows were seen since this call, and all before them."""
        last = self.written + count
        return lambda: self.seen >= set(range(1, last + 1))


class Java:
    """A Canal server, with a client while it is active."""

    def __init__(self, place: Path, work: Path, zookeeper: str, mysql: MySqlServer, rows: Rows) -> None:
        self.port = free_port()
        self._place, self._work, self._rows = place, work, rows
        keys = {"canal__zkServers": zookeeper, "canal__register__ip": "127.0.0.1"}
        spring = "classpath:spring/default-instance.xml"
        configure(work, self.port, mysql, mysql.position(), "shop", canal__instance__global__spring__xml=spring, **keys)
        self._client = client(place, work, Path(__file__).parent / "Take.java", self.port, "shop")
        self._processes: list[psutil.Popen] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._processes.append(launch(self._place, self._work, self.port))

    def take(self) -> None:
        """Starts the client; what it prints is seen."""
        taker = psutil.Popen(self._client, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(taker)
        threading.Thread(target=lambda: self._rows.seen.update(map(int, taker.stdout)), daemon=True).start()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(30)
        self._processes.clear()


def holder(zk: KazooClient) -> str | None:
    """The server that runs the destination."""
    return Running.from_json(zk.get(RUNNING)[0]).address if zk.exists(RUNNING) else None


def cursor(zk: KazooClient) -> LogPosition:
    return LogPosition.from_json(zk.get(CURSOR)[0])


def drain(zookeeper: str, rows: Rows, enough: Callable[[], bool]) -> None:
    """Claims and acks at the Sluice server."""
    with Connector(None, "shop", zk_servers=zookeeper) as connector:
        while not enough():
            with connector.claim(20, owner="test", timeout_seconds=5) as claim:
                for table in claim.tables if claim else ():
                    rows.seen |= set(connector.changes(claim, table.name).read_all()["id"].to_pylist())


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path / "zookeeper", free_port()) as server:
        yield server


@pytest.fixture
def zk(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.mark.timeout(600)
def test_they_take_turns(mysql8: MySqlServer, zookeeper: ZooKeeper, zk: KazooClient, tmp_path: Path) -> None:
    """Canal is killed, Sluice is stopped, Canal takes over again, while rows are written. Rows not acked may come
    twice."""
    place = home()
    assert place is not None
    with ExitStack() as parts:
        mysql8.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        parts.callback(mysql8.execute, "DROP DATABASE shop")
        rows = Rows(mysql8)
        (tmp_path / "java").mkdir()
        java = Java(place, tmp_path / "java", zookeeper.hosts, mysql8, rows)
        ours = node(tmp_path / "ours", zookeeper.hosts, mysql8, "shop")
        for end in (ours.service.kill, java.kill, rows.stop):
            parts.callback(end)
        rows.start()

        java.start()
        until(lambda: holder(zk) == java.address, 60)
        java.take()
        ours.service.start()
        assert ours.state == "standby"
        assert ours.get("/v1/destinations/shop")["active"]["address"] == java.address
        until(rows.more(), 60)
        until(lambda: zk.exists(CURSOR))
        left = cursor(zk)

        java.kill()
        until(lambda: ours.reads, SESSION_OF_CANAL)
        told = ours.get("/v1/destinations/shop")["start"]
        assert (told["rule"], told["looked_at"].startswith("cursor")) == ("the last position", True)
        drain(zookeeper.hosts, rows, rows.more())
        assert cursor(zk).postion > left.postion

        java.start()
        drain(zookeeper.hosts, rows, rows.more())
        left = cursor(zk)
        ours.service.stop()
        until(lambda: holder(zk) == java.address, SESSION_OF_CANAL)
        java.take()
        until(rows.more(), 60)
        until(lambda: cursor(zk).postion > left.postion)

        rows.stop()
        until(lambda: not rows.missing, 60)
        print(f"{rows.written} rows, all seen")
