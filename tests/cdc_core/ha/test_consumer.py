"""Several consumers of one client with a real ZooKeeper: one works, the next takes over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from cdc_core.client.consumer import ConsumerSeat
from cdc_core.ha import election
from cdc_core.ha.election import PREFERENCE
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.servers import expire_session

pytestmark = pytest.mark.integration

RUNNING = "/otter/canal/destinations/shop/1001/running"


@pytest.fixture
def make(zookeeper: ZooKeeper, zk_root: str) -> Iterator[Callable[[int], ConsumerSeat]]:
    made: list[ConsumerSeat] = []

    def seat(number: int) -> ConsumerSeat:
        made.append(ConsumerSeat(zookeeper.hosts + zk_root, "shop", address=f"10.0.0.1:{number}", session_seconds=10))
        made[-1].start()
        return made[-1]

    yield seat
    for one in made:
        if one._nodes.client.connected:
            one.stop()


def test_the_next_takes_over(make: Callable[[int], ConsumerSeat]) -> None:
    """The node has the JSON of Canal. The second waits, and works after the delay of Canal once the first is gone."""
    first = make(1)
    assert first.wait(60)
    second = make(2)
    assert not second.wait(0.5)
    assert second.holder == "10.0.0.1:1"
    node = second._nodes.read(RUNNING)
    assert node is not None
    assert (node.value, node.version) == (b'{"active":true,"address":"10.0.0.1:1","clientId":1001}', 1)

    began = time.monotonic()
    first.stop()
    assert not first.active
    assert second.wait(60)
    assert time.monotonic() - began > PREFERENCE - 1


def test_the_last_holder_comes_first(
    make: Callable[[int], ConsumerSeat], zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that lost its session and lives works again before the other stops waiting."""
    monkeypatch.setattr(election, "PREFERENCE", 200.0)
    first = make(1)
    assert first.wait(60)
    second = make(2)
    assert not second.wait(0.5)
    expire_session(zookeeper, first._nodes.client)
    deadline = time.monotonic() + 100
    while (node := second._nodes.read(RUNNING)) is None or not first.active:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert b"10.0.0.1:1" in node.value
    assert not second.active
