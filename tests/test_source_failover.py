"""Two real servers that replicate, one destination: the one that is read is killed, hangs, lost something."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.errors import SluiceError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql import MySqlServer
from tests.pair import Forward, Pair, drain, instance_of, reads, switched, until
from tests.test_instance import CLIENT

pytestmark = pytest.mark.integration


@pytest.fixture(params=[("8.0.31", True), ("8.0.31", False), ("mariadb", True)], ids=["gtid", "place", "mariadb"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    version, gtid = request.param
    made = Pair.start(tmp_path, gtid=gtid, version=version)
    made.master.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    made.caught_up()
    try:
        yield made
    finally:
        made.stop()


by_gtid = pytest.mark.parametrize("pair", [("8.0.31", True)], indirect=True, ids=["gtid"])


def insert(server: MySqlServer, *ids: int) -> None:
    """A transaction for each."""
    with server.root("shop") as connection, connection.cursor() as cursor:
        for number in ids:
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")


def test_to_the_standby_and_back(pair: Pair) -> None:
    """Killed with a claim outstanding: every row comes, by GTID once; the cursor is the other server's in a new
    epoch. The one that comes back is read again when the other dies, by the same rule."""
    first, second, nodes = pair.master, pair.replica, MemoryNodes()
    cursors = Cursors(nodes, "shop")
    with switched(pair.config("shop", first), nodes) as one:
        insert(first, *range(1, 11))
        drain(one, 10)
        before = cursors.read(CLIENT)
        insert(first, *range(11, 21))
        until(lambda: one.current.status()["backlog_rows"] == 10, one)
        old = instance_of(one)
        outstanding = old.claim(CLIENT, 4, 10, "test", 60)
        assert outstanding is not None
        pair.caught_up()
        place = pair.fail_over()
        insert(second, *range(21, 31))
        print(f"reads the standby after {until(lambda: reads(one, second), one):.1f} s, a heartbeat being 1 s")

        with pytest.raises(SluiceError):
            old.ack(CLIENT, outstanding.batch_id, "test")
        drain(one, 20, exact=pair.gtid)
        moved = cursors.read(CLIENT)
        assert before is not None
        assert moved is not None
        assert (before.port, moved.port) == (first.port, second.port)
        epoch = cursors.present(CLIENT)
        assert (epoch.number, epoch.moved) == (1, 1)
        assert dict(epoch.seamless) == ({1: before.postion.version()} if pair.gtid else {})
        told = one.current.status()
        assert told["source"]["role"] == "standby"
        assert told["source"]["switched"]["to"] == told["source"]["address"] == f"{second.host}:{second.port}"
        assert "heartbeats failed in a row" in told["source"]["switched"]["why"]
        assert "another address" in told["start"]["rule"]
        assert one.current.metrics()["source_switches"] == 1

        pair.join(place)
        insert(second, *range(31, 41))
        pair.caught_up()
        pair.fail_over()
        insert(first, *range(41, 51))
        until(lambda: reads(one, first), one)
        drain(one, 20, exact=pair.gtid)
        assert cursors.present(CLIENT).number == cursors.moved(CLIENT) == 2
        assert len(cursors.seamless(CLIENT)) == (2 if pair.gtid else 0)
        assert one.current.status()["source"]["role"] == "master"


@by_gtid
def test_a_restart_goes_on_where_the_cursor_is(pair: Pair) -> None:
    """At the standby, though the master lives: a switch is not undone by a restart."""
    nodes = MemoryNodes()
    first, second = pair.master, pair.replica
    with switched(pair.config("shop", first), nodes) as one:
        insert(first, 1)
        drain(one, 1)
        pair.caught_up()
        place = pair.fail_over()
        until(lambda: reads(one, second), one)
    settings = pair.config("shop", first)
    pair.join(place)
    insert(second, 2)
    with switched(settings, nodes) as one:
        assert reads(one, second)
        drain(one, 1)
        assert Cursors(nodes, "shop").epoch(CLIENT) == 1


@by_gtid
def test_a_master_that_hangs(pair: Pair) -> None:
    """It accepts connections and says nothing: that counts as much."""
    first, second = pair.master, pair.replica
    with switched(pair.config("shop", first), MemoryNodes()) as one:
        insert(first, 1)
        drain(one, 1)
        pair.caught_up()
        pid = first.process.pid
        assert pid is not None
        os.killpg(pid, signal.SIGSTOP)
        try:
            print(f"reads the standby after {until(lambda: reads(one, second), one):.1f} s, a heartbeat being 1 s")
        finally:
            os.killpg(pid, signal.SIGCONT)
        pair.promote()
        insert(second, 2)
        drain(one, 1)


@by_gtid
def test_nothing_switches_without_need(pair: Pair) -> None:
    """Not when the other one is away too, nor for a statement that neither takes, nor without heartbeatHaEnable."""
    first, second = pair.master, pair.replica
    second.kill()
    with switched(pair.config("shop", first), MemoryNodes()) as one:
        first.kill()
        until(lambda: one.current.status()["source"]["failed_heartbeats"] > 4, one)
        assert one.current.status()["source"]["role"] == "master"
        first.start()
        until(lambda: reads(one, first), one)
        until(lambda: one.current.status()["source"]["failed_heartbeats"] == 0, one)
        assert one.current.metrics()["source_switches"] == 0
    second.start()
    for changes in ({"detecting_sql": "INSERT INTO nowhere.beat VALUES (1)"}, {"heartbeat_ha": False}):
        with switched(pair.config("shop", first, **changes), MemoryNodes()) as one:
            if "heartbeat_ha" in changes:
                first.kill()
            until(lambda: one.current.status()["source"]["failed_heartbeats"] > 4, one)
            assert one.current.status()["source"]["role"] == "master"


@by_gtid
def test_a_standby_that_lacks_transactions(pair: Pair) -> None:
    """What is read and not there is named, and nothing moves; when it comes after all, reading goes on."""
    first, second, nodes = pair.master, pair.replica, MemoryNodes()
    cursors = Cursors(nodes, "shop")
    with switched(pair.config("shop", first), nodes) as one:
        insert(first, 1)
        pair.caught_up()
        second.execute("STOP REPLICA")
        insert(first, 2, 3)
        drain(one, 3)
        before = cursors.read(CLIENT)
        first.kill()
        until(lambda: one.current.status()["source"]["role"] == "standby" and one.current.status()["error"], one)
        error = one.current.status()["error"]
        assert f"which were read from {first.host}:{first.port}" in error["message"]
        assert "lacks the transactions" in error["message"]
        assert "--moved" in error["hint"]
        assert (cursors.read(CLIENT), cursors.epoch(CLIENT)) == (before, 0)

        first.start()
        second.execute("START REPLICA")
        pair.caught_up()
        until(lambda: reads(one, second), one)
        insert(first, 4)
        drain(one, 1)
        assert cursors.epoch(CLIENT) == 1


@pytest.mark.parametrize("pair", [("8.0.31", True), ("8.0.31", False)], indirect=True, ids=["gtid", "place"])
def test_another_server_behind_one_address(pair: Pair) -> None:
    """Met by a reconnect, and after a restart: known by its uuid, read in an epoch of its own."""
    first, second, nodes = pair.master, pair.replica, MemoryNodes()
    address = Forward(first)
    settings = pair.config("shop", first, address=address.address, standby_address="", heartbeat_ha=False)
    try:
        with switched(settings, nodes) as one:
            insert(first, 1, 2)
            drain(one, 2)
            insert(first, 3)
            until(lambda: one.current.status()["backlog_rows"] == 1, one)
            pair.caught_up()
            place = pair.fail_over()
            address.to(second)
            insert(second, 4)
            until(lambda: "another server at the address" in (one.current.status()["start"] or {}).get("rule", ""), one)
            drain(one, 2, exact=pair.gtid)
            assert Cursors(nodes, "shop").moved(CLIENT) == 1
        pair.join(place)
        pair.fail_over()
        insert(first, 5)
        address.to(first)
        with switched(settings, nodes) as one:
            assert "another server at the address" in one.current.status()["start"]["rule"]
            drain(one, 1, exact=pair.gtid)
            assert Cursors(nodes, "shop").moved(CLIENT) == 2
    finally:
        address.close()
