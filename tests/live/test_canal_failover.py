"""Canal's cluster connector in front of two real services on one ZooKeeper: the one that serves it is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cdc_core.canal.client import ClusterCanalConnector, Consumer, Handler, Policy, Row
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.failover import Node, node, until

pytestmark = [pytest.mark.integration, pytest.mark.fault]


class Seen(Handler):
    """The ids of all rows that came."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def on_insert(self, row: Row) -> None:
        self.ids.append(int(row.after["id"] or 0))


@pytest.fixture
def pair(
    mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, tmp_path: Path
) -> Iterator[tuple[str, str, tuple[Node, Node]]]:
    """A database, ZooKeeper's address and two services of which one is active."""
    with ExitStack() as parts:
        database = parts.enter_context(mysql8.database())
        mysql8.execute("CREATE TABLE orders (id INT PRIMARY KEY)", database=database)
        hosts = zookeeper.hosts + zk_root
        nodes = []
        for name in ("a", "b"):
            made = node(tmp_path / name, hosts, mysql8, database)
            with (made.conf / "canal.properties").open("a") as file:
                file.write("sluice.tcp.anyone = true\n")
            parts.callback(made.service.kill)
            made.service.start()
            nodes.append(made)
        until(lambda: any(one.reads for one in nodes))
        yield database, hosts, (nodes[0], nodes[1])


def test_a_consumer_follows_the_destination(pair: tuple[str, str, tuple[Node, Node]], mysql8: MySqlServer) -> None:
    """Every row arrives, also those that were outstanding when the server was killed, in the order of the source."""
    database, hosts, nodes = pair
    connector, seen, stop = ClusterCanalConnector(hosts, "shop"), Seen(), threading.Event()
    connector.connect()
    consumer = Consumer(connector, seen, Policy(batch_size=1, wait_seconds=0.5), tell=lambda _: None)
    thread = threading.Thread(target=consumer.run, args=(stop,))
    thread.start()
    try:
        for number in range(1, 41):
            mysql8.execute(f"INSERT INTO orders VALUES ({number})", database=database)
            if number == 20:
                until(lambda: len(seen.ids) > 5)
                next(one for one in nodes if one.reads).service.kill()
        deadline = time.monotonic() + 120
        while set(seen.ids) != set(range(1, 41)):
            assert time.monotonic() < deadline, (sorted(set(range(1, 41)) - set(seen.ids)), seen.ids)
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join(30)
        connector.close()
    first = list(dict.fromkeys(seen.ids))
    assert first == sorted(first)
