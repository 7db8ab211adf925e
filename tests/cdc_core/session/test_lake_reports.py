"""What a lake's writer reports of clients' tables, kept with the cursors."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from cdc_core.contract.stopped_table import MOST_BLOCKED, StoppedTable
from cdc_core.errors import CursorError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Change, MemoryNodes
from cdc_core.session.lake_reports import BlockedTables, QuarantinedRows

PATH = "/otter/canal/destinations/shop/1001/quarantined"


def rows_of(nodes: MemoryNodes) -> QuarantinedRows:
    """As the service has them when it starts."""
    found = QuarantinedRows(Cursors(nodes, "shop"), nullcontext)
    for client in (1001, 1002):
        found.load(client)
    return found


def test_they_outlive_the_service() -> None:
    """Each client has its own; a table of which no row waits any more is forgotten."""
    nodes = MemoryNodes()
    rows = rows_of(nodes)
    rows.report(1001, {"shop.orders": 2, "shop.users": 1}, whole=False)
    rows.report(1001, {"shop.users": 0, "shop.more": 0}, whole=False)

    again = rows_of(nodes)

    assert (again.of(1001), again.of(1002)) == ({"shop.orders": 2}, {})
    again.report(1001, {}, whole=True)
    assert nodes.read(PATH) is None
    assert rows_of(nodes).of(1001) == {}


@pytest.mark.parametrize("keep", [False, True], ids=["forgotten", "kept"])
def test_they_go_with_the_cursor(*, keep: bool) -> None:
    """A client that subscribes anew under the number has other tables, which nobody may count."""
    nodes = MemoryNodes()
    rows_of(nodes).report(1001, {"shop.orders": 2}, whole=True)
    Cursors(nodes, "shop").unsubscribe(1001, keep_cursor=keep)
    assert bool(rows_of(nodes).of(1001)) == keep


def test_a_report_of_the_same_writes_nothing() -> None:
    """A run reports after each batch of a table with a quarantine."""
    nodes = MemoryNodes()
    rows = rows_of(nodes)
    rows.report(1001, {"shop.orders": 2}, whole=False)
    before = nodes.read(PATH)
    rows.report(1001, {"shop.orders": 2}, whole=False)
    rows.report(1001, {"shop.orders": 2, "shop.users": 0}, whole=True)
    assert nodes.read(PATH) == before


def test_their_node_is_bounded() -> None:
    """Of very many tables those with the most rows are kept, whatever their names; it fits a node of ZooKeeper."""
    nodes = MemoryNodes()
    name = "\u6f22" * 299
    rows_of(nodes).report(1001, {f"{at % 10}{name}"[:296] + f"{at:04}": at for at in range(2000)}, whole=True)
    node = nodes.read(PATH)
    assert node is not None
    assert len(node.value) < 600_000
    assert sorted(json.loads(node.value).values()) == list(range(1500, 2000))


def test_a_node_that_is_none_is_not_overwritten() -> None:
    """It says where it is and what to do."""
    nodes = MemoryNodes()
    nodes.write({PATH: Change(b"[1]", None)})
    with pytest.raises(CursorError, match="not counts of rows"):
        rows_of(nodes)


def blocked_of(nodes: MemoryNodes) -> BlockedTables:
    """As the service has them when it starts."""
    found = BlockedTables(Cursors(nodes, "shop"), nullcontext)
    found.load(1001)
    return found


def test_blocked_tables_outlive_the_service_and_go_with_the_cursor() -> None:
    """Each report has all of them; the same again writes nothing."""
    nodes, path = MemoryNodes(), PATH.replace("quarantined", "blocked")
    blocked_of(nodes).report(1001, [StoppedTable("shop.users", "2 rows fail", "Accept it.", None)])
    (one,) = blocked_of(nodes).of(1001)
    assert (one.table, one.reason, one.hint, one.kind, one.position) == (
        *("shop.users", "2 rows fail", "Accept it.", "blocked"),
        None,
    )
    before = nodes.read(path)
    blocked_of(nodes).report(1001, [one])
    assert nodes.read(path) == before
    Cursors(nodes, "shop").unsubscribe(1001, keep_cursor=False)
    assert blocked_of(nodes).of(1001) == ()
    blocked_of(nodes).report(1001, [one])
    blocked_of(nodes).report(1001, [])
    assert nodes.read(path) is None


def test_the_node_of_blocked_tables_is_bounded() -> None:
    """The first ones by name, with the beginnings of their texts; it fits a node of ZooKeeper."""
    nodes, text = MemoryNodes(), "\u6f22" * 2000
    blocked_of(nodes).report(1001, [StoppedTable(f"{at:04}{text[:290]}", text, text, None) for at in range(400)])
    node = nodes.read(PATH.replace("quarantined", "blocked"))
    assert node is not None
    assert len(node.value) < 600_000
    assert [one.table[:4] for one in blocked_of(nodes).of(1001)] == [f"{at:04}" for at in range(MOST_BLOCKED)]
