"""How many rows of clients' tables wait in quarantines, kept with the cursors."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from cdc_core.errors import CursorError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Change, MemoryNodes
from cdc_core.session.quarantined import QuarantinedRows

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
