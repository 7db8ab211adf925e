"""Cursors in ZooKeeper, which goes away, comes back, and forgets our session. Refused writes are never done late."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from cdc_core.errors import CursorError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.servers import free_port

pytestmark = pytest.mark.integration


def at(offset: int) -> LogPosition:
    return LogPosition("127.0.0.1", 3306, EntryPosition("mysql-bin.000001", offset))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A ZooKeeper that the test may kill."""
    server = ZooKeeper(tmp_path, free_port()).start()
    yield server
    server.stop()


def write_soon(cursors: Cursors, position: LogPosition, seconds: float = 60) -> None:
    """Writes as an acker does that tries again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return cursors.write(1001, position)
        except CursorError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_it_is_killed_and_comes_back(own: ZooKeeper) -> None:
    """A write meanwhile fails at once with the remedy; afterwards the same connection writes again."""
    nodes = ZookeeperNodes(own.hosts)
    cursors = Cursors(nodes, "example")
    cursors.write(1001, at(100))

    own.kill()
    with pytest.raises(CursorError, match="does not answer") as away:
        cursors.write(1001, at(200))
    assert "canal.zkServers" in away.value.hint

    own.start()
    write_soon(cursors, at(300))
    assert cursors.read(1001) == at(300)
    nodes.close()


def test_a_lost_session_heals(zookeeper: ZooKeeper, zk_root: str) -> None:
    """When the ensemble forgets our session the connection makes a new one."""
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root)
    cursors = Cursors(nodes, "example")
    cursors.write(1001, at(100))
    mine = nodes._client
    lost = threading.Event()
    mine.add_listener(lambda state: lost.set() if state == "LOST" else None)

    thief = KazooClient(zookeeper.hosts, client_id=mine.client_id)
    thief.start(timeout=60)
    thief.stop()

    assert lost.wait(60)
    write_soon(cursors, at(200))
    assert cursors.read(1001) == at(200)
    nodes.close()


def test_nobody_listens(tmp_path: Path) -> None:
    """A service started before ZooKeeper says so, and works once it is there."""
    server = ZooKeeper(tmp_path, free_port())
    nodes = ZookeeperNodes(server.hosts, connect_seconds=0.5)
    with pytest.raises(CursorError, match="not connected"):
        Cursors(nodes, "example").read(1001)

    server.start()
    write_soon(Cursors(nodes, "example"), at(100))
    nodes.close()
    server.stop()


def test_digest_auth_closes_the_nodes(zookeeper: ZooKeeper, zk_root: str) -> None:
    """With `user:password` others cannot read; the password is in no repr."""
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root, auth="sluice:secret")
    Cursors(nodes, "example").write(1001, at(100))
    other = ZookeeperNodes(zookeeper.hosts + zk_root)

    with pytest.raises(CursorError, match=r"(?i)auth"):
        Cursors(other, "example").read(1001)

    assert "secret" not in repr(nodes)
    nodes.close()
    other.close()
