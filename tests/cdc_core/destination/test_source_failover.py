"""Two real servers that replicate and one destination. The server read is killed, hangs, or has lost something."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.contract.status import ErrorReport
from cdc_core.destination.runner import Destination
from cdc_core.errors import SluiceError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT
from tests.support.pair import Pair, capture_of, destination, drain, reads, until
from tests.support.proxy import Proxy

pytestmark = pytest.mark.integration


GTID = pytest.param(("8.0.31", True), id="gtid")
PLACE = pytest.param(("8.0.31", False), id="place", marks=pytest.mark.full)
MARIADB = pytest.param(("mariadb", True), id="mariadb", marks=pytest.mark.full)


@pytest.fixture(params=[GTID, PLACE, MARIADB])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    version, gtid = request.param
    made = Pair.start(tmp_path, gtid=gtid, version=version)
    made.master.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    made.caught_up()
    try:
        yield made
    finally:
        made.stop()


by_gtid = pytest.mark.parametrize("pair", [GTID], indirect=True)


def insert(server: MySqlServer, *ids: int) -> None:
    """A transaction for each."""
    with server.root("shop") as connection, connection.cursor() as cursor:
        for number in ids:
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")


def error_of(one: Destination, role: str) -> ErrorReport | None:
    """The error while the server of that role is read, as one look shows it."""
    told = one.status()
    return told.error if told.source.detected and told.source.detected.role == role else None


def test_to_the_standby_and_back(pair: Pair) -> None:
    """The master is killed with a claim outstanding. Every row comes, by GTID once; the cursor names the other server
    in a new epoch. The old master is read again when the other dies."""
    first, second, nodes = pair.master, pair.replica, MemoryNodes()
    cursors = Cursors(nodes, "shop")
    with destination(pair.config("shop", first), nodes) as one:
        insert(first, *range(1, 11))
        drain(one, 10)
        before = cursors.read(CLIENT)
        insert(first, *range(11, 21))
        until(lambda: one.status().backlog_rows == 10, one)
        old = capture_of(one)
        outstanding = old.service.claim(CLIENT, 4, 10, "test", 60)
        assert outstanding is not None
        pair.caught_up()
        place = pair.fail_over()
        insert(second, *range(21, 31))
        print(f"reads the standby after {until(lambda: reads(one, second), one):.1f} s, a heartbeat being 1 s")

        with pytest.raises(SluiceError):
            old.service.ack(CLIENT, outstanding.batch_id, "test")
        drain(one, 20, exact=pair.gtid)
        moved = cursors.read(CLIENT)
        assert before is not None
        assert moved is not None
        assert (before.port, moved.port) == (first.port, second.port)
        epoch = cursors.epoch(CLIENT)
        assert (epoch.number, epoch.moved) == (1, 1)
        assert dict(epoch.seamless) == ({1: before.postion.version()} if pair.gtid else {})
        told = one.status()
        assert told.source.detected.role == "standby"
        assert told.source.detected.switched.to == told.source.address == f"{second.host}:{second.port}"
        assert "heartbeats failed in a row" in told.source.detected.switched.why
        assert "another address" in told.start.rule
        assert one.metrics().source_switches == 1

        pair.join(place)
        insert(second, *range(31, 41))
        pair.caught_up()
        pair.fail_over()
        insert(first, *range(41, 51))
        until(lambda: reads(one, first), one)
        drain(one, 20, exact=pair.gtid)
        assert cursors.epoch(CLIENT).number == cursors.epoch(CLIENT).moved == 2
        assert len(cursors.epoch(CLIENT).seamless) == (2 if pair.gtid else 0)
        assert one.status().source.detected.role == "master"


@by_gtid
def test_a_restart_goes_on_where_the_cursor_is(pair: Pair) -> None:
    """A restart stays at the standby although the master lives."""
    nodes = MemoryNodes()
    first, second = pair.master, pair.replica
    with destination(pair.config("shop", first), nodes) as one:
        insert(first, 1)
        drain(one, 1)
        pair.caught_up()
        place = pair.fail_over()
        until(lambda: reads(one, second), one)
    settings = pair.config("shop", first)
    pair.join(place)
    insert(second, 2)
    with destination(settings, nodes) as one:
        assert reads(one, second)
        drain(one, 1)
        assert Cursors(nodes, "shop").epoch(CLIENT).number == 1


@by_gtid
def test_a_master_that_hangs(pair: Pair) -> None:
    """A master that accepts connections and stays silent counts as dead."""
    first, second = pair.master, pair.replica
    with destination(pair.config("shop", first), MemoryNodes()) as one:
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
    """Not when both are away, not for a statement that neither takes, and not without heartbeatHaEnable."""
    first, second = pair.master, pair.replica
    second.kill()
    with destination(pair.config("shop", first), MemoryNodes()) as one:
        first.kill()
        until(lambda: one.status().source.detected.failures > 4, one)
        assert one.status().source.detected.role == "master"
        first.start()
        until(lambda: reads(one, first), one)
        until(lambda: one.status().source.detected.failures == 0, one)
        assert one.metrics().source_switches == 0
    second.start()
    for changes in ({"detecting_sql": "INSERT INTO nowhere.beat VALUES (1)"}, {"heartbeat_ha": False}):
        with destination(pair.config("shop", first, **changes), MemoryNodes()) as one:
            if "heartbeat_ha" in changes:
                first.kill()
            until(lambda: one.status().source.detected.failures > 4, one)
            assert one.status().source.detected.role == "master"


@by_gtid
def test_a_standby_that_lacks_transactions(pair: Pair) -> None:
    """The error names what was read and is missing, and nothing moves. Once it arrives, reading goes on."""
    first, second, nodes = pair.master, pair.replica, MemoryNodes()
    cursors = Cursors(nodes, "shop")
    with destination(pair.config("shop", first), nodes) as one:
        insert(first, 1)
        pair.caught_up()
        second.execute("STOP REPLICA")
        insert(first, 2, 3)
        drain(one, 3)
        before = cursors.read(CLIENT)
        first.kill()
        until(lambda: error_of(one, "standby"), one)
        error = error_of(one, "standby")
        assert error is not None
        assert f"which were read from {first.host}:{first.port}" in error.message
        assert "lacks the transactions" in error.message
        assert "--anew" in error.hint
        assert (cursors.read(CLIENT), cursors.epoch(CLIENT).number) == (before, 0)

        first.start()
        second.execute("START REPLICA")
        pair.caught_up()
        until(lambda: reads(one, second), one)
        insert(first, 4)
        drain(one, 1)
        assert cursors.epoch(CLIENT).number == 1


@pytest.mark.parametrize("pair", [GTID, PLACE], indirect=True)
def test_another_server_behind_one_address(pair: Pair) -> None:
    """A reconnect and a restart notice it by the uuid and read it in a new epoch."""
    first, second, nodes = pair.master, pair.replica, MemoryNodes()
    proxy = Proxy(first.port)
    settings = pair.config("shop", first, address=proxy.address, standby_address="", heartbeat_ha=False)
    try:
        with destination(settings, nodes) as one:
            insert(first, 1, 2)
            drain(one, 2)
            insert(first, 3)
            until(lambda: one.status().backlog_rows == 1, one)
            pair.caught_up()
            place = pair.fail_over()
            proxy.move(second.port)
            insert(second, 4)
            until(lambda: "another server at the address" in getattr(one.status().start, "rule", ""), one)
            until(lambda: bool(one.status().clients), one)  # it has begun
            drain(one, 2, exact=pair.gtid)
            assert Cursors(nodes, "shop").epoch(CLIENT).moved == 1
        pair.join(place)
        pair.fail_over()
        insert(first, 5)
        proxy.move(first.port)
        with destination(settings, nodes) as one:
            assert "another server at the address" in one.status().start.rule
            drain(one, 1, exact=pair.gtid)
            assert Cursors(nodes, "shop").epoch(CLIENT).moved == 2
    finally:
        proxy.close()
