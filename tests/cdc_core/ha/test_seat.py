"""The running node and the fence around the cursors, in a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from cdc_core.errors import LeadershipLost
from cdc_core.ha.election import Term
from cdc_core.ha.fenced import FencedNodes
from cdc_core.ha.running import Running, destination_path
from cdc_core.ha.seat import Seat
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

RUNNING, COUNTER = destination_path("shop", "running"), destination_path("shop", "sluice_leader")


def at(offset: int) -> LogPosition:
    return LogPosition("127.0.0.1", 3306, EntryPosition("mysql-bin.000001", offset))


@pytest.fixture
def two(zookeeper: ZooKeeper, zk_root: str) -> Iterator[tuple[ZookeeperNodes, ZookeeperNodes]]:
    """Two sessions."""
    first, second = (ZookeeperNodes(zookeeper.hosts + zk_root) for _ in range(2))
    yield first, second
    first.close()
    second.close()


def seat(nodes: ZookeeperNodes, port: int) -> Seat:
    return Seat(nodes, RUNNING, Running(f"127.0.0.1:{port}"), COUNTER)


def cursors(nodes: ZookeeperNodes, term: Term | None, over: threading.Event) -> Cursors:
    assert term is not None
    return Cursors(FencedNodes(nodes, term, over.set), "shop")


def test_one_takes_it(two: tuple[ZookeeperNodes, ZookeeperNodes]) -> None:
    """The node is as Canal writes it. The other is refused, sees the holder, and is notified when it ends."""
    first, second = seat(two[0], 1), seat(two[1], 2)
    changed = threading.Event()
    term = first.take()

    assert term is not None
    assert dict(term.checks) == {RUNNING: 1, COUNTER: 1}
    node = two[1].read(RUNNING)
    assert node is not None
    assert node.value == b'{"active":true,"address":"127.0.0.1:1"}'
    assert second.take() is None
    found = second.look(changed.set)
    assert found is not None
    assert (found.running.address, found.ours) == ("127.0.0.1:1", False)

    second.give_back()
    assert two[0].read(RUNNING) is not None
    first.give_back()
    assert changed.wait(60)
    assert second.look(changed.set) is None


def test_writes_of_an_earlier_term_are_refused(two: tuple[ZookeeperNodes, ZookeeperNodes]) -> None:
    """The connection lives and the versions of the cursor fit; still nothing is written."""
    over = threading.Event()
    old = cursors(two[0], seat(two[0], 1).take(), over)
    old.write(1001, at(100), at(100).postion)
    two[1].client.delete(RUNNING)  # as the end of its session does
    new = cursors(two[1], seat(two[1], 2).take(), over)

    with pytest.raises(LeadershipLost, match="nothing was written"):
        old.write(1001, at(200), at(200).postion)

    assert over.is_set()
    assert (new.read(1001), new.acked(1001)) == (at(100), at(100).postion)
    new.write(1001, at(300), at(300).postion)
    assert new.read(1001) == at(300)
    with pytest.raises(LeadershipLost):  # an ack within a transaction, of what the other acked already
        old.write(1001, None, at(200).postion)
    new.write(1001, None, at(200).postion)
    assert new.acked(1001) == at(300).postion


@pytest.mark.parametrize("taken", [True, False])
def test_a_java_server_fences_us_off(two: tuple[ZookeeperNodes, ZookeeperNodes], taken: bool) -> None:
    """It makes the same node without knowing of our fence; a node that is gone has the same effect."""
    over = threading.Event()
    ours = cursors(two[0], seat(two[0], 1).take(), over)
    two[1].client.delete(RUNNING)
    if taken:
        two[1].client.create(RUNNING, Running("127.0.0.1:2").to_json(), ephemeral=True)

    with pytest.raises(LeadershipLost):
        ours.write(1001, at(200))

    assert over.is_set()
    assert ours.read(1001) is None


def test_our_own_earlier_term_is_over_too(two: tuple[ZookeeperNodes, ZookeeperNodes]) -> None:
    """With the same server and session, an instance that has not quite ended cannot write."""
    mine, over = seat(two[0], 1), threading.Event()
    old = cursors(two[0], mine.take(), over)
    mine.give_back()
    new = cursors(two[0], mine.take(), over)
    new.write(1001, at(100))
    with pytest.raises(LeadershipLost):
        old.write(1001, at(200))
    assert new.read(1001) == at(100)
