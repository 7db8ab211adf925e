"""The schema history in nodes: in memory, in files, in a real ZooKeeper."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cdc_core.errors import CursorError
from cdc_core.meta import schema_log
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Change, MemoryNodes, Nodes
from cdc_core.meta.schema_log import SchemaLog
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.schema.history import SchemaHistory, Version
from cdc_core.schema.table import Column, TableSchema

ROOT = "/otter/canal/destinations/shop/tsdb"


@pytest.fixture(params=["memory", "file", pytest.param("zookeeper", marks=pytest.mark.integration)])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    if request.param == "memory":
        yield MemoryNodes()
    elif request.param == "file":
        yield FileNodes(tmp_path / "shop" / "cursors.json")
    else:
        zookeeper, root = request.getfixturevalue("zookeeper"), request.getfixturevalue("zk_root")
        found = ZookeeperNodes(f"{zookeeper.hosts}{root}")
        yield found
        found.close()


def table(name: str, columns: int = 3) -> tuple[tuple[str, str], Version]:
    made = tuple(Column(f"column_{i}", 3, 0, comment=f"the {i}th") for i in range(columns))
    return ("d", name), Version(100, TableSchema("d", name, made))


def test_what_is_added_is_there_after_a_restart(nodes: Nodes) -> None:
    """In the order in which it was added; an older generation is gone."""
    begun = SchemaHistory().with_versions([table("t")])
    log = SchemaLog(nodes, "shop")
    assert log.load("one") is None
    log.replace(begun, "one")
    log.append([table("u")])
    log.append([(("d", "t"), Version(200, None, dropped=True))])

    again = SchemaLog(nodes, "shop")
    history = again.load("one")
    assert history == begun.with_versions([table("u"), (("d", "t"), Version(200, None, dropped=True))])
    assert history is not None
    again.append([table("v")])
    assert again.changes == 3
    again.replace(history, "one")

    assert sorted(nodes.children(ROOT)) == ["2-snapshot-0", "current"]
    assert SchemaLog(nodes, "shop").load("one") == history


def test_a_generation_that_could_not_be_written_is_not_continued() -> None:
    """What is added after the failure is still there after a restart."""

    class Failing(MemoryNodes):
        fails = False

        def write(self, changes: Mapping[str, Change]) -> None:
            if self.fails and any(path.endswith("current") for path in changes):
                raise CursorError("the connection is lost", hint="Wait.")
            super().write(changes)

    nodes, begun = Failing(), SchemaHistory().with_versions([table("t")])
    log = SchemaLog(nodes, "shop")
    log.replace(begun, "one")
    nodes.fails = True
    with pytest.raises(CursorError):
        log.replace(begun, "one")
    log.append([table("u")])
    assert SchemaLog(nodes, "shop").load("one") == begun.with_versions([table("u")])


def test_a_history_belongs_to_one_source(nodes: Nodes) -> None:
    """Positions of another server mean nothing here."""
    SchemaLog(nodes, "shop").replace(SchemaHistory().with_versions([table("t")]), "one")

    log = SchemaLog(nodes, "shop")
    assert log.load("two") is None
    log.replace(SchemaHistory(), "two")
    assert SchemaLog(nodes, "shop").load("two") == SchemaHistory()


def test_many_tables_fit_the_nodes(nodes: Nodes) -> None:
    """A snapshot is cut into parts that ZooKeeper takes."""
    history = SchemaHistory().with_versions([table(f"t{number}", 60) for number in range(400)])
    SchemaLog(nodes, "shop").replace(history, "one")

    parts = [name for name in nodes.children(ROOT) if "snapshot" in name]
    assert len(parts) > 1
    assert all(len(node.value) < 1 << 20 for name in parts if (node := nodes.read(f"{ROOT}/{name}")))
    assert SchemaLog(nodes, "shop").load("one") == history


def test_a_damaged_part_is_an_error() -> None:
    """It is named, and nothing takes its place in silence."""
    nodes = MemoryNodes()
    SchemaLog(nodes, "shop").replace(SchemaHistory().with_versions([table("t")]), "one")
    nodes.write({f"{ROOT}/1-snapshot-0": Change(b"not this", 0)})

    with pytest.raises(CursorError, match="not a part of a schema history") as caught:
        SchemaLog(nodes, "shop").load("one")
    assert "1-snapshot-0" in caught.value.place


def test_files_lie_next_to_the_cursors(tmp_path: Path) -> None:
    """Cursors are written often, definitions seldom: they share no file, also where the destination is called tsdb."""
    nodes = FileNodes(tmp_path / "cursors.json")
    SchemaLog(nodes, "tsdb").replace(SchemaHistory(), "one")
    nodes.write({"/otter/canal/destinations/tsdb/1001/filter": Change(b"x", None)})

    assert "tsdb/current" not in (tmp_path / "cursors.json").read_text()
    assert [one.name for one in (tmp_path / "tsdb").iterdir()] == ["current"]


def wide(name: str) -> tuple[tuple[str, str], Version]:
    """An ENUM whose labels compress badly: 1.9 MB in base64."""
    made = random.Random(name)
    labels = tuple(made.randbytes(50).hex() for _ in range(25_000))
    return ("d", name), Version(200, TableSchema("d", name, (Column("e", 247, 2, labels=labels),)))


def test_a_definition_that_fits_no_node_is_cut(nodes: Nodes) -> None:
    """As a change and in a snapshot; what an older generation has of it goes."""
    log, begun = SchemaLog(nodes, "shop"), SchemaHistory().with_versions([table("t")])
    log.replace(begun, "one")
    log.append([wide("w")])
    log.append([table("u")])
    history = SchemaLog(nodes, "shop").load("one")
    assert history == begun.with_versions([wide("w"), table("u")])
    assert history is not None
    log.replace(history, "one")
    assert SchemaLog(nodes, "shop").load("one") == history
    log.replace(begun, "one")
    assert sorted(nodes.children(ROOT)) == ["3-snapshot-0", "current"]


def test_a_kill_between_the_pieces() -> None:
    """The definition is there as a whole or not at all, and is written again in the same place."""
    nodes = MemoryNodes()

    class Killed(Exception):
        pass

    class Mortal:
        def __init__(self, writes: int) -> None:
            self.left = writes
            self.place, self.read, self.children, self.close = nodes.place, nodes.read, nodes.children, nodes.close

        def write(self, changes: Mapping[str, Change]) -> None:
            self.left -= 1
            if self.left < 0:
                raise Killed
            nodes.write(changes)

    begun = SchemaHistory().with_versions([table("t")])
    SchemaLog(nodes, "shop").replace(begun, "one")
    for writes in range(3):
        log = SchemaLog(Mortal(writes), "shop")
        assert log.load("one") == begun
        with pytest.raises(Killed):
            log.append([wide("w")])
    log = SchemaLog(nodes, "shop")
    assert log.load("one") == begun
    log.append([wide("v")])
    assert SchemaLog(nodes, "shop").load("one") == begun.with_versions([wide("v")])


def test_a_piece_that_is_away_is_an_error() -> None:
    """What is left of the definition is not read."""
    nodes = MemoryNodes()
    log = SchemaLog(nodes, "shop")
    log.replace(SchemaHistory().with_versions([wide("w")]), "one")
    path = f"{ROOT}/1-more-2-snapshot-0"
    node = nodes.read(path)
    assert node is not None
    nodes.write({path: Change(None, node.version)})
    with pytest.raises(CursorError, match="not a part of a schema history"):
        SchemaLog(nodes, "shop").load("one")


def test_a_definition_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its table and a remedy; what was there stays."""
    monkeypatch.setattr(schema_log, "_PIECES", 2)
    nodes, begun = MemoryNodes(), SchemaHistory().with_versions([table("t")])
    log = SchemaLog(nodes, "shop")
    log.replace(begun, "one")
    with pytest.raises(CursorError, match=r"the definition of d\.w has .* takes 1,400,000"):
        log.append([wide("w")])
    assert SchemaLog(nodes, "shop").load("one") == begun
