"""The contract of cursors, on every backend: memory, a file and a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import CursorError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.epoch import Epoch
from cdc_core.meta.file import FileNodes
from cdc_core.meta.filter_notes import FilterChange, FilterNote, FilterText
from cdc_core.meta.nodes import Change, MemoryNodes, Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition, LogPosition

AT = EntryPosition("mysql-bin.000001", 35934751, 1795253009000, 1)
CURSOR = LogPosition("localhost", 33061, AT)
CURSOR_PATH = "/otter/canal/destinations/example/1001/cursor"


@pytest.fixture(params=["memory", "file", pytest.param("zookeeper", marks=pytest.mark.integration)])
def open_nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Nodes]]:
    """Opens the backend; a second call opens it as another process would. Memory forgets."""
    opened: list[Nodes] = []
    memory = MemoryNodes()
    hosts = ""
    if request.param == "zookeeper":
        hosts = request.getfixturevalue("zookeeper").hosts + request.getfixturevalue("zk_root")

    def make() -> Nodes:
        kinds: dict[str, Callable[[], Nodes]] = {
            "memory": lambda: memory,
            "file": lambda: FileNodes(tmp_path / "conf" / "cursors.json"),
            "zookeeper": lambda: ZookeeperNodes(hosts),
        }
        opened.append(kinds[request.param]())
        return opened[-1]

    yield make
    for nodes in opened:
        nodes.close()


@pytest.fixture
def nodes(open_nodes: Callable[[], Nodes]) -> Nodes:
    return open_nodes()


@pytest.fixture
def cursors(nodes: Nodes) -> Cursors:
    return Cursors(nodes, "example")


def moved(offset: int) -> LogPosition:
    return CURSOR.at(replace(AT, position=offset))


def test_nothing_is_there_at_first(cursors: Cursors) -> None:
    """At first there is no client, no cursor, epoch 0 and no stopped table; a cursor and a subscription make the client
    known."""
    assert (cursors.clients(), cursors.read(1001), cursors.epoch(1001).number) == ([], None, 0)
    assert (cursors.acked(1001), cursors.stopped.of(1001)) == (None, [])

    cursors.subscribe(1001, r"bench\.t")
    cursors.write(1002, CURSOR)

    assert cursors.clients() == [1001, 1002]


def test_any_bytes_come_back(open_nodes: Callable[[], Nodes]) -> None:
    """Such as those of a long filter, which its node has compressed: another process reads them as they were."""
    some = "ä😀".encode() + bytes(range(256)) + "😀".encode()[:2] + b"\xed\xa0\xbd\xed\xb2\x80"
    note = FilterNote(FilterText("shop.t," * 400, "")).after(FilterText("shop.u," * 400, "x"))
    nodes = open_nodes()
    nodes.write({CURSOR_PATH: Change(some, None)})
    Cursors(nodes, "example").begin(1002, CURSOR, "uuid", "", FilterChange(note))

    again = open_nodes()
    read = again.read(CURSOR_PATH)
    assert read is not None
    assert read.value == some
    assert Cursors(again, "example").filters.of(1002) == note


def test_a_cursor_is_kept_in_canals_layout_and_json(open_nodes: Callable[[], Nodes]) -> None:
    """The bytes are those that a Canal server writes, and another connection reads them."""
    nodes = open_nodes()
    Cursors(nodes, "example").write(1001, CURSOR)
    Cursors(nodes, "example").subscribe(1001, r"bench\.t")

    again = open_nodes()
    node = again.read(CURSOR_PATH)

    assert node is not None
    assert node.value == (
        b'{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition","identity":{"slaveId":-1,"sourceAddress":'
        b'{"address":"localhost","port":33061}},"postion":{"gtid":"","included":false,"journalName":"mysql-bin.000001",'
        b'"position":35934751,"serverId":1,"timestamp":1795253009000}}'
    )
    assert Cursors(again, "example").read(1001) == CURSOR
    filter_node = again.read("/otter/canal/destinations/example/1001/filter")
    assert filter_node is not None
    assert filter_node.value == rb"bench\.t"


def test_a_cursor_only_moves_on(cursors: Cursors) -> None:
    """Positions ahead and equal are taken; a lower one is refused and leaves the cursor. The order is numeric."""
    cursors.write(1001, moved(1000))
    cursors.write(1001, moved(1000))
    cursors.write(1001, CURSOR.at(EntryPosition("mysql-bin.1000000", 4)))

    with pytest.raises(CursorError, match="is before the stored cursor") as refused:
        cursors.write(1001, CURSOR.at(EntryPosition("mysql-bin.999999", 8)))

    assert refused.value.place.endswith(CURSOR_PATH)
    assert cursors.read(1001) == CURSOR.at(EntryPosition("mysql-bin.1000000", 4))


def test_broken_json_is_named_and_left_alone(nodes: Nodes, cursors: Cursors) -> None:
    """Neither a read nor a write overwrites JSON that cannot be parsed."""
    nodes.write({CURSOR_PATH: Change(b'{"postion":', None)})

    for call in (lambda: cursors.read(1001), lambda: cursors.write(1001, CURSOR)):
        with pytest.raises(CursorError) as refused:
            call()
        assert refused.value.place.endswith(CURSOR_PATH)

    node = nodes.read(CURSOR_PATH)
    assert node is not None
    assert node.value == b'{"postion":'


def test_a_write_in_between_is_not_overwritten(nodes: Nodes) -> None:
    """A write with an old version is refused, and none of its changes is done."""
    nodes.write({"/otter/a": Change(b"1", None)})
    first = nodes.read("/otter/a")
    assert first is not None
    nodes.write({"/otter/a": Change(b"2", first.version)})

    with pytest.raises(CursorError, match="in between"):
        nodes.write({"/otter/b": Change(b"3", None), "/otter/a": Change(b"3", first.version)})

    overtaken = nodes.read("/otter/a")
    assert overtaken is not None
    assert (overtaken.value, nodes.read("/otter/b")) == (b"2", None)


def test_the_last_acked_batch_is_kept_next_to_the_cursor(nodes: Nodes, cursors: Cursors) -> None:
    """It is written with the cursor or alone, and never lowered within an epoch; a new epoch starts afresh."""
    cursors.write(1001, moved(1000), AT)
    cursors.write(1001, None, replace(AT, position=1))
    assert cursors.acked(1001) == AT

    nodes.write({"/otter/canal/destinations/example/1001/epoch": Change(b"1", None)})
    assert (cursors.epoch(1001).number, cursors.acked(1001)) == (1, None)
    cursors.write(1001, None, replace(AT, position=1))
    assert cursors.acked(1001) == replace(AT, position=1)


def test_stopped_tables_come_and_go(open_nodes: Callable[[], Nodes]) -> None:
    """Any table name is kept until the table is resumed; resuming twice is no error."""
    cursors = Cursors(open_nodes(), "example")
    odd = StoppedTable("shop.a/b %", "column type changed", "Rebuild the table.", AT)
    cursors.stopped.stop(1001, odd)
    cursors.stopped.stop(1001, replace(odd, reason="twice"))

    assert Cursors(open_nodes(), "example").stopped.of(1001) == [replace(odd, reason="twice")]
    assert cursors.clients() == [1001]

    cursors.stopped.resume(1001, odd.table)
    cursors.stopped.resume(1001, odd.table)
    assert cursors.stopped.of(1001) == []


def test_open_snapshots_come_and_go(open_nodes: Callable[[], Nodes]) -> None:
    """Any table name is kept with its progress; a rewind breaks the snapshot in its own write."""
    cursors = Cursors(open_nodes(), "example")
    cursors.write(1001, CURSOR, AT)
    odd = Snapshot("shop.a/b %", "5f", "run", 60.0, 1e9, 0, Progress(low=AT, groups=3, behind="['x']"))
    cursors.snapshots.write(1001, odd)
    cursors.write(1001, None, AT, snapshots=[replace(odd, acked=AT)])

    assert Cursors(open_nodes(), "example").snapshots.of(1001) == [replace(odd, acked=AT)]
    cursors.rewind(1001, CURSOR)
    assert Cursors(open_nodes(), "example").snapshots.of(1001)[0].broken == "the destination was reset"

    cursors.snapshots.remove(1001, odd.table)
    cursors.snapshots.remove(1001, odd.table)
    assert cursors.snapshots.of(1001) == []


def test_a_rewind_is_one_write(open_nodes: Callable[[], Nodes]) -> None:
    """One write lowers the cursor, raises the epoch and removes `acked`; another connection sees all of it."""
    cursors = Cursors(open_nodes(), "example")
    cursors.subscribe(1001)
    cursors.write(1001, CURSOR, AT)
    lower = moved(4)
    assert cursors.rewind(1001, lower) == 1
    assert cursors.rewind(1001, lower, moved=True) == 2

    again = Cursors(open_nodes(), "example")
    assert (again.read(1001), again.acked(1001)) == (lower, None)
    assert again.epoch(1001) == Epoch(2, 2)
    again.write(1001, CURSOR, AT)
    assert again.acked(1001) == AT
