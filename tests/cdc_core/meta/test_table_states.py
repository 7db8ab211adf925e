"""Thousands of stopped tables: one write of all with the cursor, whole or not at all, on every backend."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cdc_core.contract.snapshot import FIRST_START, Snapshot
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import CursorError
from cdc_core.gtid import parse_gtids
from cdc_core.meta import file as file_module
from cdc_core.meta import folder as folder_module
from cdc_core.meta import zookeeper as zookeeper_module
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Change, MemoryNodes, Node, Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.mortal import Mortal, dies

CLIENT = 1001
HOME = f"/otter/canal/destinations/shop/{CLIENT}"
REASON = "the destination was reset, and the lake may have rows that the source does not have"
HINT = "Reload the table from the source: sluice copy shop TABLE. Other tables go on meanwhile."


def at(offset: int) -> EntryPosition:
    return EntryPosition("mysql-bin.000001", offset, timestamp=1_700_000_000_000, server_id=1)


def cursor(offset: int) -> LogPosition:
    return LogPosition("127.0.0.1", 3306, at(offset))


def stops(count: int, offset: int = 100) -> list[StoppedTable]:
    return [
        StoppedTable(f"shop_of_a_long_name_{n % 7}.orders_of_month_{n:05}", REASON, HINT, at(offset))
        for n in range(count)
    ]


def state(nodes: Nodes) -> tuple[int, int, int]:
    """The cursor's offset, how many tables are stopped, and how many of them are passed."""
    cursors = Cursors(nodes, "shop")
    kept, stopped = cursors.read(CLIENT), cursors.stopped.of(CLIENT)
    return kept.postion.position if kept else 0, len(stopped), sum(one.passed is not None for one in stopped)


def check_parts(nodes: Nodes) -> None:
    """A first write leaves only parts that a node names."""
    cursors = Cursors(nodes, "shop")
    cursors.stopped.resume(CLIENT, "shop.none")
    named = {
        name
        for n in nodes.children(f"{HOME}/stopped_tables")
        for name in json.loads(read(nodes, f"{HOME}/stopped_tables/{n}").value).get("parts", ())
    }
    assert set(nodes.children(f"{HOME}/parts")) == named


def read(nodes: Nodes, path: str) -> Node:
    node = nodes.read(path)
    assert node is not None
    return node


@pytest.fixture(params=["memory", "file", pytest.param("zookeeper", marks=pytest.mark.integration)])
def nodes(request: pytest.FixtureRequest, tmp_path: Path, zk_root: str) -> Iterator[Nodes]:
    if request.param == "memory":
        yield MemoryNodes()
    elif request.param == "file":
        yield FileNodes(tmp_path / "cursors.json")
    else:
        zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")
        made = ZookeeperNodes(zookeeper.hosts + zk_root)
        yield made
        made.close()


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_write_leaves_all_or_nothing(nodes: Nodes, *, after: bool) -> None:
    """A reset that stops all tables, then an ack of changes of all of them."""
    Cursors(nodes, "shop").subscribe(CLIENT)
    Cursors(nodes, "shop").write(CLIENT, cursor(100))
    many, deaths = stops(700), 0
    begun, stopped, passed = (100, 0, 0), (500, 700, 0), (900, 700, 700)

    def reset(mortal: Nodes) -> None:
        Cursors(mortal, "shop").rewind(CLIENT, cursor(500), many)

    def ack(mortal: Nodes) -> None:
        known = [one.at(at(900), moved=True) for one in many]
        Cursors(mortal, "shop").write(CLIENT, cursor(900), at(900), stopped=known)

    for work, before, then in ((reset, begun, stopped), (ack, stopped, passed)):
        dies_at = 0
        while dies(lambda: work(Mortal(nodes, dies_at, after=after))):  # noqa: B023 called at once
            deaths += 1
            if state(nodes) == then:
                break
            assert state(nodes) == before
            dies_at += 1
        assert state(nodes) == then
        check_parts(nodes)
    assert deaths >= 4
    Cursors(nodes, "shop").write(CLIENT, None, lifted=[one.table for one in many])
    assert state(nodes) == (900, 0, 0)
    assert nodes.children(f"{HOME}/parts") == nodes.children(f"{HOME}/stopped_tables") == []


def test_a_file_that_is_killed_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts before the file that names them; what they replace goes after it."""
    nodes = FileNodes(tmp_path / "cursors.json")
    Cursors(nodes, "shop").rewind(CLIENT, cursor(100), stops(300))
    known = [one.at(at(200), moved=True) for one in stops(300)]
    left = 0

    def replace_file(path: Path, content: bytes, *opener: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        real(path, content, *opener)

    def unlink(self: Path, *, missing_ok: bool = False) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        remove(self, missing_ok=missing_ok)

    real, remove, seen = folder_module.replace_file, Path.unlink, set()
    for dies_at in range(0, 200, 4):
        with monkeypatch.context() as patched:
            patched.setattr(folder_module, "replace_file", replace_file)
            patched.setattr(file_module, "replace_file", replace_file)
            patched.setattr(Path, "unlink", unlink)
            left = dies_at
            dead = dies(
                lambda: Cursors(FileNodes(tmp_path / "cursors.json"), "shop").write(CLIENT, cursor(200), stopped=known)
            )
        found = state(FileNodes(tmp_path / "cursors.json"))
        seen.add(found)
        if not dead:
            break
    assert seen == {(100, 300, 0), (200, 300, 300)}
    assert not dead
    check_parts(FileNodes(tmp_path / "cursors.json"))


@pytest.mark.in_turn
def test_ten_thousand_tables(nodes: Nodes) -> None:
    """All stop at once, all wait for their first snapshot, and are acked: in few writes, none of them large. An ack of
    one table's changes touches few nodes."""
    cursors, many = Cursors(nodes, "shop"), stops(10_000 if isinstance(nodes, ZookeeperNodes) else 3_000)
    waiting = [Snapshot(one.table, f"{n:016x}", FIRST_START, 60.0, 1.7e9 + n, 0) for n, one in enumerate(many)]
    cursors.write(CLIENT, cursor(200), stopped=many, snapshots=waiting)
    cursors.write(
        CLIENT,
        cursor(300),
        at(300),
        stopped=[one.at(at(300), moved=True) for one in many],
        snapshots=[one.after(at(300)) for one in waiting],
    )
    cursors.rewind(CLIENT, cursor(150), many)
    assert state(nodes) == (150, len(many), 0)  # the reset takes back what passed
    assert all(one.broken for one in cursors.snapshots.of(CLIENT))
    cursors.move([CLIENT], cursor(400), "uuid")

    counted = Counting(nodes)
    cursors = Cursors(counted, "shop")
    cursors.stopped.resume(CLIENT, "shop.none")
    counted.calls, begun = 0, time.perf_counter()
    for offset in range(500, 520):
        cursors.write(CLIENT, cursor(offset), at(offset), stopped=[many[17].at(at(offset), moved=True)])
    print(f"\nan ack with {len(many)} stopped tables: {(time.perf_counter() - begun) / 20 * 1000:.1f} ms")
    assert counted.calls / 20 < 15


CLIENTS = [1001, 1002, 1003]


def epochs(nodes: Nodes) -> list[tuple[int, int, int]]:
    """Of each client: the cursor's offset, the epoch, and how many tables are stopped at the cursor."""
    found = []
    for client in CLIENTS:
        cursors = Cursors(nodes, "shop")
        kept, stopped = cursors.read(client), cursors.stopped.of(client)
        assert kept is not None
        behind = sum(one.passed == one.position == kept.postion for one in stopped)
        found.append((kept.postion.position, cursors.epoch(client).number, behind))
    return found


@pytest.mark.parametrize("after", [False, True])
def test_a_move_that_is_killed_is_finished(nodes: Nodes, *, after: bool) -> None:
    """At each write. Before the first one nothing has moved; after it every client is moved once."""
    for client in CLIENTS:
        Cursors(nodes, "shop").subscribe(client)
        Cursors(nodes, "shop").write(client, cursor(100), stopped=stops(20))
    to, unmoved = 500, [(100, 0, 0)] * 3
    for dies_at in range(50):
        moving = Cursors(Mortal(nodes, dies_at, after=after), "shop")
        dead = dies(lambda: moving.move(CLIENTS, cursor(to), f"uuid-{to}", [1002]))  # noqa: B023 called at once
        Cursors(nodes, "shop").finish_move()
        Cursors(nodes, "shop").finish_move()
        if epochs(nodes) == unmoved:
            continue
        assert epochs(nodes) == [(to, number + 1, 20) for _, number, _ in unmoved]
        assert Cursors(nodes, "shop").epoch(1002).seamless
        assert not Cursors(nodes, "shop").epoch(1003).seamless
        assert all(Cursors(nodes, "shop").source(client, cursor(to)) == f"uuid-{to}" for client in CLIENTS)
        unmoved, to = epochs(nodes), to + 1
        if not dead:
            break
    assert not dead
    assert to > 503
    assert nodes.read("/otter/canal/destinations/shop/sluice_move") is None


def test_a_move_leaves_what_a_person_did_since(nodes: Nodes) -> None:
    """A client that was reset, and one that was unsubscribed, between the kill and the start."""
    for client in CLIENTS:
        Cursors(nodes, "shop").subscribe(client)
        Cursors(nodes, "shop").write(client, cursor(100), stopped=stops(20))
    moving = Cursors(Mortal(nodes, 0, after=True), "shop")
    assert dies(lambda: moving.move(CLIENTS, cursor(500), "uuid"))
    Cursors(nodes, "shop").rewind(1001, cursor(50))
    Cursors(nodes, "shop").unsubscribe(1002, keep_cursor=True)
    Cursors(nodes, "shop").finish_move()
    assert [offset for offset, _, _ in epochs(nodes)] == [50, 100, 500]


def test_a_move_leaves_a_cursor_that_another_program_moved(nodes: Nodes) -> None:
    """A Java Canal, say, between the kill and the start, in the same epoch: the move was not planned for its cursor."""
    for client in CLIENTS:
        Cursors(nodes, "shop").subscribe(client)
        Cursors(nodes, "shop").write(client, cursor(100))
    moving = Cursors(Mortal(nodes, 0, after=True), "shop")
    assert dies(lambda: moving.move(CLIENTS, cursor(500), "uuid", [1002]))
    Cursors(nodes, "shop").write(1002, cursor(90_000))
    Cursors(nodes, "shop").finish_move()
    assert [offset for offset, _, _ in epochs(nodes)] == [500, 90_000, 500]
    assert not Cursors(nodes, "shop").epoch(1002).seamless


def test_a_configured_client_that_was_dropped_moves_with_the_others(nodes: Nodes) -> None:
    """It has the mark of a client that held a full store back, and its cursor; then somebody configured it."""
    for client in CLIENTS:
        Cursors(nodes, "shop").subscribe(client)
        Cursors(nodes, "shop").write(client, cursor(100))
    Cursors(nodes, "shop").unsubscribe(1002, keep_cursor=True)
    Cursors(nodes, "shop").move(CLIENTS, cursor(500), "uuid")
    assert [offset for offset, _, _ in epochs(nodes)] == [500, 500, 500]
    assert Cursors(nodes, "shop").epoch(1002).moved == 1


@pytest.mark.integration
def test_many_clients_with_many_stops_move(zookeeper: ZooKeeper, zk_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it in one write is more than ZooKeeper takes, of 30 clients; here of six."""
    monkeypatch.setattr(zookeeper_module, "_MOST_BYTES", 150_000)
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root)
    try:
        cursors, many, clients = Cursors(nodes, "shop"), stops(400), range(1001, 1007)
        waiting = [Snapshot(one.table, f"{n:016x}", FIRST_START, 60.0, 1.7e9 + n, 0) for n, one in enumerate(many)]
        for client in clients:
            cursors.subscribe(client)
            cursors.write(client, cursor(200), stopped=many, snapshots=waiting)
        cursors.move(clients, cursor(400), "uuid")
        for client in clients:
            assert cursors.read(client) == cursor(400)
            assert {one.passed for one in cursors.stopped.of(client)} == {at(400)}
            assert all(one.broken for one in cursors.snapshots.of(client))
    finally:
        nodes.close()


class Counting:
    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.calls = nodes, 0
        self.place, self.close = nodes.place, nodes.close

    def read(self, path: str) -> Node | None:
        self.calls += 1
        return self.nodes.read(path)

    def children(self, path: str) -> list[str]:
        self.calls += 1
        return self.nodes.children(path)

    def write(self, changes: Mapping[str, Change]) -> None:
        self.calls += 1
        self.nodes.write(changes)


def test_stops_of_an_older_version_are_taken_over(nodes: Nodes) -> None:
    """They had a node each. They are read as they are, and the first write moves them."""
    cursors = Cursors(nodes, "shop")
    cursors.subscribe(CLIENT)
    kept = {one.table: json.dumps(one.to_dict()).encode() for one in stops(600)}  # more than one write takes over
    nodes.write({f"{HOME}/stopped/{table}": Change(value, None) for table, value in kept.items()})
    known = sorted(stops(600), key=lambda one: one.table)
    assert cursors.stopped.of(CLIENT) == known
    cursors.stopped.resume(CLIENT, known[3].table)
    assert nodes.children(f"{HOME}/stopped") == []
    assert cursors.stopped.of(CLIENT) == known[:3] + known[4:]


def test_a_stop_keeps_no_set_of_gtids() -> None:
    """A set that names thousands of servers is kept by the cursor alone."""
    sets = parse_gtids(",".join(f"{n:08x}-0000-0000-0000-000000000000:1-9" for n in range(1000)), "mysql")
    nodes = MemoryNodes()
    place = EntryPosition("mysql-bin.000001", 100, gtid=sets)
    Cursors(nodes, "shop").rewind(CLIENT, LogPosition("h", 1, place), [StoppedTable("a.b", "r", "h", place, place)])
    [stopped] = Cursors(nodes, "shop").stopped.of(CLIENT)
    assert stopped.position == stopped.passed == place
    assert stopped.position is not None
    assert stopped.position.gtid is None


@pytest.mark.integration
def test_what_is_too_large_for_zookeeper_is_refused_before(zookeeper: ZooKeeper, zk_root: str) -> None:
    """It would end the connection that all destinations share."""
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root)
    try:
        cursors, session = Cursors(nodes, "shop"), nodes.client.client_id
        cursors.subscribe(CLIENT)
        with pytest.raises(CursorError, match="1,000,000 bytes") as refused:
            cursors.set_filter(CLIENT, "shop.a," * 100_000)
        assert "jute.maxbuffer" in refused.value.hint
        cursors.set_filter(CLIENT, "shop.a," * 70_000)
        cursors.write(CLIENT, cursor(200))
        assert nodes.client.client_id == session
    finally:
        nodes.close()
