"""Reading by GTID from real servers: nothing is lost, nothing comes twice, and the cursor has the whole set."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pymysql
import pytest

from cdc_core.config import InstanceConfig
from cdc_core.gtid import parse_gtids
from cdc_core.instance import Instance
from cdc_core.meta.cursors import Cursors, Epoch
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql import MySqlServer
from tests.conftest import purge
from tests.test_instance import CLIENT, claim, config, drain, execute, running, until

pytestmark = pytest.mark.integration

SERVERS = ("mysql8", "mysql9", "mariadb")


def by_gtid(server: MySqlServer, database: str, **changes: Any) -> InstanceConfig:
    return config(server, database, gtid_mode=True, **changes)


def executed(server: MySqlServer) -> str:
    variable = "gtid_binlog_pos" if server.version == "mariadb" else "GLOBAL.gtid_executed"
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@{variable}")
        return str(cursor.fetchall()[0][0])


def kill_dumps(server: MySqlServer) -> None:
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        for (number,) in cursor.fetchall():
            with contextlib.suppress(pymysql.err.MySQLError):
                cursor.execute(f"KILL {number}")


def insert(server: MySqlServer, database: str, *ids: int, tag: str = "") -> None:
    with server.root(database) as connection, connection.cursor() as cursor:
        if tag:
            cursor.execute(f"SET gtid_next = 'AUTOMATIC:{tag}'")
        for number in ids:
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")


def same_set(server: MySqlServer, instance: Instance) -> bool:
    """Whether the client's cursor has what the server executed."""
    flavor = "mariadb" if server.version == "mariadb" else "mysql"
    cursor = instance.client(CLIENT)["cursor"]
    return bool(parse_gtids(cursor["gtid"], flavor) == parse_gtids(executed(server), flavor))


@pytest.mark.parametrize("name", SERVERS)
def test_a_reconnect_asks_for_what_is_missing(name: str, request: pytest.FixtureRequest) -> None:
    """Kills, a rotation and a restart of the service between transactions; tags on MySQL 9."""
    server: MySqlServer = request.getfixturevalue(name)
    tag = "shop_tag" if name == "mysql9" else ""
    nodes = MemoryNodes()
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        with running(by_gtid(server, shop), nodes) as instance:
            insert(server, shop, *range(1, 11))
            assert drain(instance, 10) == 10
            assert instance.ack is not None
            until(lambda: same_set(server, instance), instance)
            for first in (11, 21, 31):
                kill_dumps(server)
                insert(server, shop, *range(first, first + 5), tag=tag)
                if first == 21:
                    server.execute("FLUSH BINARY LOGS")
                insert(server, shop, *range(first + 5, first + 10))
                until(lambda upto=first + 9: instance.store.ring.put.rows == upto, instance)  # type: ignore[misc]
            assert instance.status()["source"]["connected"]
            found = claim(instance, rows=12)
            assert found.rows == 12
            instance.ack(CLIENT, found.batch_id, found.owner)
            assert not same_set(server, instance)
        insert(server, shop, 41, tag=tag)
        with running(by_gtid(server, shop), nodes) as instance:
            assert "GTID set" in instance.status()["start"]["rule"]
            assert drain(instance, 19) == 19
            insert(server, shop, 42)
            assert drain(instance, 1) == 1
            until(lambda: same_set(server, instance), instance)


@pytest.mark.parametrize("name", SERVERS)
def test_a_configured_set(name: str, request: pytest.FixtureRequest) -> None:
    """Its file is found, and the first transaction that it lacks is the first to come."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        server.execute("FLUSH BINARY LOGS")
        journal, _ = server.position()
        insert(server, shop, 1, 2)
        had = executed(server)
        insert(server, shop, 3, 4)
        server.execute("FLUSH BINARY LOGS")
        insert(server, shop, 5)
        with running(by_gtid(server, shop, gtid=had), MemoryNodes()) as instance:
            start = instance.status()["start"]
            assert start["rule"] == "the configured GTID set"
            assert start["chosen"]["journalName"] == journal
            until(lambda: instance.store.ring.put.rows >= 3, instance)
            found = claim(instance)
            assert found.rows == 3
            assert found.end > EntryPosition(journal, 4)


@pytest.mark.parametrize("name", SERVERS)
def test_gtid_mode_switched_on(name: str, request: pytest.FixtureRequest) -> None:
    """A cursor with its last GTID alone, as it is kept without the mode, and one with none: the set is found."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        server.execute("FLUSH BINARY LOGS")
        nodes = MemoryNodes()
        with running(config(server, shop), nodes) as instance:
            insert(server, shop, 1, 2)
            drain(instance, 2)
            assert instance.client(CLIENT)["cursor"]["gtid"].count("-") in (2, 4)
        insert(server, shop, 3)
        with running(by_gtid(server, shop), nodes) as instance:
            assert drain(instance, 1) == 1
            until(lambda: same_set(server, instance), instance)


@pytest.mark.parametrize("name", SERVERS)
def test_from_a_journals_start(name: str, request: pytest.FixtureRequest) -> None:
    """By place at first, then by the set that the journal begins with: a reconnect repeats nothing."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        insert(server, shop, 1)
        server.execute("FLUSH BINARY LOGS")
        journal, _ = server.position()
        had = executed(server)
        with running(by_gtid(server, shop, journal_name=journal), MemoryNodes()) as instance:
            flavor = "mariadb" if name == "mariadb" else "mysql"
            chosen = instance.status()["start"]["chosen"]
            assert (chosen["journalName"], chosen["position"]) == (journal, 4)
            assert parse_gtids(chosen["gtid"], flavor) == parse_gtids(had, flavor)
            insert(server, shop, 2)
            assert drain(instance, 1) == 1
            kill_dumps(server)
            insert(server, shop, 3)
            assert drain(instance, 1) == 1
            until(lambda: same_set(server, instance), instance)


def test_a_new_client_has_the_set(mysql8: MySqlServer) -> None:
    """Of the newest transaction, though others have not come so far."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        nodes = MemoryNodes()
        with running(by_gtid(mysql8, shop), nodes) as instance:
            insert(mysql8, shop, 1, 2)
            until(lambda: instance.store.ring.put.rows == 2, instance)
            assert instance.claim(1002, 10, 0.1, "other", 60) is None
            kept = Cursors(nodes, "shop").read(1002)
            assert kept is not None
            assert parse_gtids(kept.postion.gtid, "mysql") == parse_gtids(executed(mysql8), "mysql")


@pytest.mark.parametrize(
    ("name", "gtid", "what"),
    [
        ("mysql8", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "never executed the transactions 3e11fa47"),
        ("mysql8", "{own}:1-99999999", "never executed"),
        ("mariadb", "0-77-99999999", "0-77-99999999"),
    ],
)
def test_a_set_that_the_server_does_not_know(name: str, gtid: str, what: str, request: pytest.FixtureRequest) -> None:
    """Told with the set; there is no cursor after it."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        own, nodes = executed(server).partition(":")[0], MemoryNodes()
        with running(by_gtid(server, shop, gtid=gtid.format(own=own)), nodes, wait=False) as instance:
            until(lambda: instance.status()["error"], instance)
            error = instance.status()["error"]
            assert (error["error"], what in error["message"]) == ("PositionError", True), error
            assert error["hint"]
        assert Cursors(nodes, "shop").read(CLIENT) is None


def test_what_cannot_go_on_by_gtid(mysql8: MySqlServer, mysql57: MySqlServer) -> None:
    """Transactions that the server never had; a server that turned; purged transactions."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        settings, nodes = by_gtid(mysql8, shop), MemoryNodes()
        name, offset = mysql8.position()
        lacking = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
        here = EntryPosition(name, offset, int(time.time() * 1000), 1, f"{executed(mysql8)},{lacking}")
        Cursors(nodes, "shop").write(CLIENT, LogPosition("elsewhere", 3306, here))
        with running(settings, nodes, wait=False) as instance:
            until(lambda: instance.status()["error"], instance)
            error = instance.status()["error"]
            assert f"lacks the transactions {lacking}, which were read from elsewhere:3306" in error["message"]
            assert "--moved" in error["hint"]
        assert Cursors(nodes, "shop").present(CLIENT) == Epoch(0, 0, {})
        with running(settings, MemoryNodes()) as instance:
            insert(mysql8, shop, 1)
            until(lambda: instance.store.ring.put.rows == 1, instance)
            instance._starting._identity = "another"
            kill_dumps(mysql8)
            until(lambda: instance.status()["error"], instance)
            until(lambda: "another server answers" in instance.status()["error"]["message"], instance)
        mysql8.execute("FLUSH BINARY LOGS")
        purge(mysql8, mysql8.position()[0])
        server_uuid = executed(mysql8).partition(":")[0]
        with running(by_gtid(mysql8, shop, gtid=f"{server_uuid}:1"), MemoryNodes(), wait=False) as instance:
            until(lambda: instance.status()["error"], instance)
            assert "are needed and were purged" in instance.status()["error"]["message"]
