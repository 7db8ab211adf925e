"""Which server a destination begins at, without any server: it is where its cursors say."""

from __future__ import annotations

import time
from collections.abc import Callable

from cdc_core.config import InstanceConfig
from cdc_core.instance import Instance
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Change, MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.switched import Switched

NOWHERE, NOR_THERE = "127.0.0.1:9", "127.0.0.1:10"
CURSOR = "/otter/canal/destinations/shop/1001/cursor"
AT = EntryPosition("mysql-bin.000007", 1234)


def switched(nodes: MemoryNodes, **changes: object) -> Switched:
    known = {"destination": "shop", "address": NOWHERE, "standby_address": NOR_THERE}
    return Switched(InstanceConfig.model_validate(known | changes), nodes)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_begins_where_the_cursor_belongs() -> None:
    """At the standby, else at the master; the role is told."""
    nodes = MemoryNodes()
    one = switched(nodes)
    one.start()
    assert one.current.status()["source"]["address"] == NOWHERE
    one.stop()
    Cursors(nodes, "shop").write(1001, LogPosition("127.0.0.1", 10, AT))
    one = switched(nodes)
    one.start()
    source = one.current.status()["source"]
    assert (source["address"], source["role"], source["failed_heartbeats"]) == (NOR_THERE, "standby", None)
    assert one.current.metrics()["source_standby"] == 1
    one.stop()
    assert one.current.status()["state"] == "stopped"


def test_a_cursor_that_cannot_be_read() -> None:
    """Neither server is asked before it says whose it is; it is looked at again by itself."""
    nodes = MemoryNodes()
    nodes.write({CURSOR: Change(b"{", None)})
    one = switched(nodes)
    one.start()
    try:
        told = one.current.status()
        assert (told["state"], told["error"]["error"]) == ("failed", "CursorError")
        assert told["error"]["place"].endswith(CURSOR)
        nodes.write({CURSOR: Change(LogPosition("127.0.0.1", 10, AT).to_json().encode(), 0)})
        until(lambda: isinstance(one.current, Instance))
        assert one.current.status()["source"]["address"] == NOR_THERE
    finally:
        one.stop()


def test_without_an_answer_from_either_nothing_switches() -> None:
    """Its heartbeats are counted."""
    one = switched(MemoryNodes(), detecting=True, detecting_seconds=1, detecting_threshold=1, heartbeat_ha=True)
    one.start()
    try:
        until(lambda: (one.current.status()["source"]["failed_heartbeats"] or 0) > 1)
        assert one.current.status()["source"]["address"] == NOWHERE
    finally:
        one.stop()
