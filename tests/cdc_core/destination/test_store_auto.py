"""The store on disk of a destination whose files say nothing of it, and a directory with two users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.config import InstanceConfig, load_instance
from cdc_core.destination.kept_room import disk_room, room_now
from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import claim, config, execute, on_disk, running, until


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    """A database with one table."""
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE orders (id INT PRIMARY KEY)")
        yield name


def test_it_is_next_to_the_cursors(tmp_path: Path) -> None:
    """Unless the files say 0, memory has more room than the disk, or nobody said where."""
    conf = tmp_path / "conf"
    (conf / "shop").mkdir(parents=True)
    (conf / "canal.properties").write_text("canal.file.data.dir = ../data\n")
    (conf / "shop" / "instance.properties").write_text("")
    found = load_instance(conf, "shop", {})[0]
    assert (found.store_dir, found.store_bytes) == (tmp_path / "data" / "store", "auto")
    assert disk_room(found) > 0
    assert disk_room(found.model_copy(update={"buffer_size": 1 << 40})) == 0  # memory has more room than the disk

    assert disk_room(found.model_copy(update={"store_dir": None})) == 0

    (conf / "shop" / "instance.properties").write_text("sluice.store.bytes = 0\n")
    assert disk_room(load_instance(conf, "shop", {})[0]) == 0


def test_the_memory_in_items_has_no_size_to_compare_with(tmp_path: Path) -> None:
    """A disk is used that has less than as many items could need."""
    values = {"destination": "shop", "store_dir": tmp_path, "batch_mode": "ITEMSIZE"}
    found = InstanceConfig.model_validate(values)
    assert disk_room(found) > 0


def test_a_room_that_shrinks_is_never_smaller_than_memory(tmp_path: Path) -> None:
    """Else the source would wait where the ring alone has room."""
    found = InstanceConfig.model_validate({"destination": "shop", "store_dir": tmp_path, "buffer_size": 1 << 40})
    assert room_now(found) == found.capacity_bytes


@pytest.mark.integration
def test_it_keeps_what_is_read(mysql8: MySqlServer, shop: str, tmp_path: Path) -> None:
    """A restart finds it."""
    nodes, own = MemoryNodes(), config(mysql8, shop, store_dir=tmp_path)
    with running(own, nodes) as capture:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
        until(lambda: capture.status().backlog_rows == 1, capture)
    with running(own, nodes) as capture:
        until(lambda: capture.status().backlog_rows == 1, capture)
        assert capture.store.ring.log.parts.stored


@pytest.mark.integration
@pytest.mark.parametrize("why", ["in use", "no directory"])
def test_a_directory_that_cannot_be_used_is_done_without(
    mysql8: MySqlServer, shop: str, tmp_path: Path, why: str
) -> None:
    """Another server's, which may hang with it; or one that cannot be made. Rows come all the same, from memory."""
    own = config(mysql8, shop, store_dir=tmp_path)
    if why == "no directory":
        (tmp_path / "shop").write_text("a file in its place")
    other = own if why == "no directory" else on_disk(mysql8, shop, tmp_path)
    with running(other, MemoryNodes()), running(own, MemoryNodes()) as capture:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
        assert claim(capture).rows == 1
        assert capture.status().store.capacity_bytes == own.capacity_bytes
        assert capture.kept is not None
        assert capture.kept.start is None
        assert capture.kept.places() is None


@pytest.mark.integration
def test_a_second_user_is_refused_with_so_many_bytes(mysql8: MySqlServer, shop: str, tmp_path: Path) -> None:
    """It says so, reads nothing, and goes on when the first one has ended."""
    own = on_disk(mysql8, shop, tmp_path)
    with running(own, MemoryNodes()) as first, running(own, MemoryNodes(), wait=False) as second:
        until(lambda: second.status().error is not None, second)
        error = second.status().error
        assert error is not None
        assert "another process uses the store on disk" in error.message
        assert error.place == str(tmp_path / "shop")
        first.stop()
        until(lambda: second.status().state == "running", second)
        execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
        assert claim(second).rows == 1
