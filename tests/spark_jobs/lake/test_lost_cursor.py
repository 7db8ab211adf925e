"""A cursor that is lost, or moved by another program, and a lake: real servers, a ledger, no Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.destination.capture import Capture
from cdc_core.destination.rewind import RewindTarget, carry_out, plan
from cdc_core.errors import LakeError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Change, Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.tables import Lake
from tests.support.captures import CLIENT, claim, config, execute, running

pytestmark = pytest.mark.integration
CURSOR = f"/otter/canal/destinations/shop/{CLIENT}/cursor"


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE t (id INT PRIMARY KEY)")
        yield name


@contextmanager
def zookeeper_nodes(zookeeper: ZooKeeper, root: str) -> Iterator[Nodes]:
    nodes = ZookeeperNodes(zookeeper.hosts + root)
    try:
        yield nodes
    finally:
        nodes.close()


def take(capture: Capture, ledger: Ledger) -> Claim:
    """One batch, as a run takes it, but for its tables."""
    found = claim(capture)
    ledger.check(found.epoch, found.reached)
    ledger.note(found, {}, "run", 1.0)
    capture.service.ack(CLIENT, found.batch_id, found.owner)
    return found


def reset(config: Any, nodes: Nodes, hint: str) -> None:
    """Does what the hint says."""
    journal, offset = re.search(r"--position (\S+):(\d+) ", hint).groups()  # type: ignore[union-attr]
    epoch = re.search(r"--epoch (\d+)", hint)
    to = EntryPosition(journal, int(offset))
    with running(config, nodes) as capture:
        settings = capture.settings
    cursors = Cursors(nodes, "shop")
    target = RewindTarget(to, CLIENT, epoch=int(epoch[1]) if epoch else 0)
    carry_out(cursors, plan(settings, cursors, target))


def test_a_lost_cursor_is_an_error_and_its_remedy_brings_every_row(
    mysql8: MySqlServer, shop: str, tmp_path: Path
) -> None:
    """The file is deleted, reading begins at the source's end: nothing is taken before the cursor is at the lake's end
    again, in an epoch that the lake does not know. A restart alone is no error."""
    ledger, meta, captured = (
        Ledger(Lake(tmp_path / "lake"), "shop", CLIENT),
        tmp_path / "meta.json",
        config(mysql8, shop),
    )
    with running(captured, FileNodes(meta)) as capture:
        execute(mysql8, shop, "INSERT INTO t VALUES (1)")
        take(capture, ledger)
    reset(captured, FileNodes(meta), f"--position {ledger.stretches()[0].end} ")
    with running(captured, FileNodes(meta)) as capture:
        execute(mysql8, shop, "INSERT INTO t VALUES (2)")
        last = take(capture, ledger)
        execute(mysql8, shop, "CREATE TABLE quiet (id INT PRIMARY KEY)")
    with running(captured, FileNodes(meta)) as capture:
        execute(mysql8, shop, "INSERT INTO t VALUES (3)")
        last = take(capture, ledger)
        assert last.epoch == 1

    meta.unlink()
    execute(mysql8, shop, "INSERT INTO t VALUES (4)")
    with running(captured, FileNodes(meta)) as capture:
        execute(mysql8, shop, "INSERT INTO t VALUES (5)")
        with pytest.raises(LakeError, match=f"in epoch 0, .* of epoch 1, up to {last.end}") as caught:
            take(capture, ledger)
        status = capture.service.client(CLIENT)
        with pytest.raises(LakeError, match="the cursor was lost"):
            ledger.check(status.epoch, status.reached)

    reset(captured, FileNodes(meta), caught.value.hint)
    with running(captured, FileNodes(meta)) as capture:
        found = take(capture, ledger)
        while found.end < EntryPosition(*mysql8.position()):
            found = take(capture, ledger)
    assert ledger.stretches()[2].start == last.end.version()


def test_a_cursor_that_another_program_moved_ahead_is_an_error(
    mysql8: MySqlServer, shop: str, tmp_path: Path, zookeeper: ZooKeeper, zk_root: str
) -> None:
    """A Java Canal that acks for the client writes the cursor alone. An older copy of the nodes only repeats rows."""
    ledger, captured = Ledger(Lake(tmp_path / "lake"), "shop", CLIENT), config(mysql8, shop)
    with zookeeper_nodes(zookeeper, zk_root) as nodes:
        with running(captured, nodes) as capture:
            execute(mysql8, shop, "INSERT INTO t VALUES (1)")
            first = take(capture, ledger)
            older = nodes.read(CURSOR)
            execute(mysql8, shop, "INSERT INTO t VALUES (2)")
            second = take(capture, ledger)

        write(nodes, older)
        with running(captured, nodes) as capture:
            assert take(capture, ledger).start == first.end  # again

        cursor = Cursors(nodes, "shop").read(CLIENT)
        assert cursor is not None
        execute(mysql8, shop, "INSERT INTO t VALUES (3)")
        moved = cursor.at(EntryPosition(*mysql8.position()))
        write(nodes, older._replace(value=moved.to_json().encode()))  # type: ignore[union-attr]
        with running(captured, nodes) as capture:
            execute(mysql8, shop, "INSERT INTO t VALUES (4)")
            words = f"another program moved the cursor to {moved.postion}, .* ends at {second.end}"
            with pytest.raises(LakeError, match=words) as caught:
                take(capture, ledger)

        reset(captured, nodes, caught.value.hint)
        with running(captured, nodes) as capture:
            assert take(capture, ledger).start == second.end


def write(nodes: Nodes, node: Any) -> None:
    present = nodes.read(CURSOR)
    assert present is not None
    nodes.write({CURSOR: Change(node.value, present.version)})
