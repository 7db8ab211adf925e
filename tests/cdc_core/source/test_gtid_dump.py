"""Reading by GTID from real servers: nothing is lost, nothing comes twice, and the cursor has the whole set."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.destination.capture import Capture
from cdc_core.gtid import parse_gtids
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.epoch import Epoch
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, config, drain, execute, running, until
from tests.support.servers import executed_gtids, kill_dumps, purge

pytestmark = pytest.mark.integration

SERVERS = ("mysql8", "mysql9", "mariadb")


def by_gtid(server: MySqlServer, database: str, **changes: Any) -> InstanceConfig:
    return config(server, database, gtid_mode=True, **changes)


def insert(server: MySqlServer, database: str, *ids: int, tag: str = "") -> None:
    with server.root(database) as connection, connection.cursor() as cursor:
        if tag:
            cursor.execute(f"SET gtid_next = 'AUTOMATIC:{tag}'")
        for number in ids:
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")


def same_set(server: MySqlServer, capture: Capture) -> bool:
    """Whether the client's cursor has what the server executed."""
    flavor = "mariadb" if server.version == "mariadb" else "mysql"
    cursor = capture.service.client(CLIENT).cursor
    return bool((cursor.gtid or parse_gtids("", flavor)) == parse_gtids(executed_gtids(server), flavor))


@pytest.mark.parametrize("name", SERVERS)
def test_a_reconnect_asks_for_what_is_missing(name: str, request: pytest.FixtureRequest) -> None:
    """Kills, a rotation and a restart of the service between transactions; tagged GTIDs on MySQL 9."""
    server: MySqlServer = request.getfixturevalue(name)
    tag = "shop_tag" if name == "mysql9" else ""
    nodes = MemoryNodes()
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        with running(by_gtid(server, shop), nodes) as capture:
            insert(server, shop, *range(1, 11))
            assert drain(capture, 10) == 10
            assert capture.service.ack is not None
            until(lambda: same_set(server, capture), capture)
            for first in (11, 21, 31):
                kill_dumps(server)
                insert(server, shop, *range(first, first + 5), tag=tag)
                if first == 21:
                    server.execute("FLUSH BINARY LOGS")
                insert(server, shop, *range(first + 5, first + 10))
                all_read(capture, server)
            assert capture.status().source.connected
            found = claim(capture, rows=12)
            assert found.rows == 12
            capture.service.ack(CLIENT, found.batch_id, found.owner)
            assert not same_set(server, capture)
        insert(server, shop, 41, tag=tag)
        with running(by_gtid(server, shop), nodes) as capture:
            assert "GTID set" in capture.status().start.rule
            assert drain(capture, 19) == 19
            insert(server, shop, 42)
            assert drain(capture, 1) == 1
            until(lambda: same_set(server, capture), capture)


@pytest.mark.parametrize("name", SERVERS)
def test_a_configured_set(name: str, request: pytest.FixtureRequest) -> None:
    """The file of the set is found, and the first transaction that it lacks comes first."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        server.execute("FLUSH BINARY LOGS")
        journal, _ = server.position()
        insert(server, shop, 1, 2)
        had = executed_gtids(server)
        insert(server, shop, 3, 4)
        server.execute("FLUSH BINARY LOGS")
        insert(server, shop, 5)
        with running(by_gtid(server, shop, gtid=had), MemoryNodes()) as capture:
            start = capture.status().start
            assert start.rule == "the configured GTID set"
            assert start.chosen.journal_name == journal
            all_read(capture, server)
            found = claim(capture)
            assert found.rows == 3
            assert found.end > EntryPosition(journal, 4)


@pytest.mark.parametrize("name", SERVERS)
def test_gtid_mode_switched_on(name: str, request: pytest.FixtureRequest) -> None:
    """A cursor from before has only its last GTID, or none: the set is found."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        server.execute("FLUSH BINARY LOGS")
        nodes = MemoryNodes()
        with running(config(server, shop), nodes) as capture:
            insert(server, shop, 1, 2)
            drain(capture, 2)
            assert str(capture.service.client(CLIENT).cursor.gtid).count("-") in (2, 4)
        insert(server, shop, 3)
        with running(by_gtid(server, shop), nodes) as capture:
            assert drain(capture, 1) == 1
            until(lambda: same_set(server, capture), capture)


@pytest.mark.parametrize("name", SERVERS)
def test_from_a_journals_start(name: str, request: pytest.FixtureRequest) -> None:
    """First by position, then by the set at the start of the journal: a reconnect repeats nothing."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        insert(server, shop, 1)
        server.execute("FLUSH BINARY LOGS")
        journal, _ = server.position()
        had = executed_gtids(server)
        with running(by_gtid(server, shop, journal_name=journal), MemoryNodes()) as capture:
            flavor = "mariadb" if name == "mariadb" else "mysql"
            chosen = capture.status().start.chosen
            assert (chosen.journal_name, chosen.position) == (journal, 4)
            assert chosen.gtid == parse_gtids(had, flavor)
            insert(server, shop, 2)
            assert drain(capture, 1) == 1
            kill_dumps(server)
            insert(server, shop, 3)
            assert drain(capture, 1) == 1
            until(lambda: same_set(server, capture), capture)


def test_a_new_client_has_the_set(mysql8: MySqlServer) -> None:
    """The set is that of the newest transaction, although other clients are behind."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        nodes = MemoryNodes()
        with running(by_gtid(mysql8, shop), nodes) as capture:
            insert(mysql8, shop, 1, 2)
            all_read(capture, mysql8)
            assert capture.service.subscribe(1002).reached is not None
            kept = Cursors(nodes, "shop").read(1002)
            assert kept is not None
            assert kept.postion.gtid == parse_gtids(executed_gtids(mysql8), "mysql")


@pytest.mark.parametrize(
    ("name", "gtid", "what"),
    [
        ("mysql8", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "never executed the transactions 3e11fa47"),
        ("mysql8", "{own}:1-99999999", "never executed"),
        ("mariadb", "0-77-99999999", "0-77-99999999"),
    ],
)
def test_a_set_that_the_server_does_not_know(name: str, gtid: str, what: str, request: pytest.FixtureRequest) -> None:
    """The error has the set, and no cursor is written."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        own, nodes = executed_gtids(server).partition(":")[0], MemoryNodes()
        with running(by_gtid(server, shop, gtid=gtid.format(own=own)), nodes, wait=False) as capture:
            error = until(lambda: capture.status().error, capture)
            assert (error.error, what in error.message) == ("PositionError", True), error
            assert error.hint
        assert Cursors(nodes, "shop").read(CLIENT) is None


def test_what_cannot_go_on_by_gtid(mysql8: MySqlServer, mysql57: MySqlServer) -> None:
    """Transactions that the server never had, a server that diverged, and purged transactions."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        settings, nodes = by_gtid(mysql8, shop), MemoryNodes()
        name, offset = mysql8.position()
        lacking = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
        here = EntryPosition(name, offset, int(time.time() * 1000), 1, f"{executed_gtids(mysql8)},{lacking}")
        Cursors(nodes, "shop").write(CLIENT, LogPosition("elsewhere", 3306, here))
        with running(settings, nodes, wait=False) as capture:
            error = until(lambda: capture.status().error, capture)
            assert f"lacks the transactions {lacking}, which were read from elsewhere:3306" in error.message
            assert "--anew" in error.hint
        assert Cursors(nodes, "shop").epoch(CLIENT) == Epoch(0, 0, {})
        with running(settings, MemoryNodes()) as capture:
            insert(mysql8, shop, 1)
            all_read(capture, mysql8)
            capture._start_finder._identity = "another"
            kill_dumps(mysql8)
            until(lambda: "another server answers" in getattr(capture.status().error, "message", ""), capture)
        mysql8.execute("FLUSH BINARY LOGS")
        purge(mysql8, mysql8.position()[0])
        server_uuid = executed_gtids(mysql8).partition(":")[0]
        with running(by_gtid(mysql8, shop, gtid=f"{server_uuid}:1"), MemoryNodes(), wait=False) as capture:
            error = until(lambda: capture.status().error, capture)
            assert "are needed and were purged" in error.message
