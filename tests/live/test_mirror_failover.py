"""`sluice mirror` of a source that fails over: places of one binlog say nothing about another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from tests.support.canal_service import served
from tests.support.mirror_world import mirror_world
from tests.support.pair import Pair

pytestmark = [pytest.mark.integration, pytest.mark.fault]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair.start(tmp_path / "pair", gtid=True)
    try:
        yield made
    finally:
        made.stop()


def test_rows_that_a_replica_has_of_its_master(pair: Pair, mysql57: MySqlServer, tmp_path: Path) -> None:
    """Rows that were not read yet: the promoted replica's binlog has them under the old master's id, at places before
    those that the target has reached. None is left out or applied twice, also of a table without a key."""
    other = pair.replica
    more = (
        f"canal.instance.standby.address = {other.host}:{other.port}\ncanal.instance.gtidon = true\n"
        "canal.instance.detecting.enable = true\ncanal.instance.detecting.interval.time = 1\n"
        "canal.instance.detecting.heartbeatHaEnable = true\nsluice.clients = 1001\n"
    )
    first = pair.master
    with mirror_world(pair.master, mysql57, tmp_path, more) as world:
        world.rule()
        world.write("CREATE TABLE k (id INT PRIMARY KEY, v INT)", "CREATE TABLE n (x INT)")
        world.write("INSERT INTO k VALUES (1, 1), (2, 2)", "INSERT INTO n VALUES (1), (1)")
        world.run()
        world.same("n")
        world.door.stop()
        world.door.server.stop()
        world.write("SET timestamp = 1700000000", "UPDATE k SET v = 7 WHERE id = 1", "INSERT INTO n VALUES (2), (2)")
        world.write("DELETE FROM k WHERE id = 2", "INSERT INTO n VALUES (3)")
        pair.caught_up()
        pair.fail_over()
        world.source = pair.master
        world.write("INSERT INTO n VALUES (4)", "INSERT INTO k VALUES (4, 4)")
        try:
            with served(tmp_path / "conf") as door:
                world.port = door.port
                world.run_until(lambda: (4,) in world.rows(world.other, "n"))
            world.same("n")
            world.same("k")
        finally:
            first.start()  # its database is dropped
