"""One destination in front of a real MySQL, its cursors in a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.errors import CursorError, RangeGone, SessionError, SourceUnavailable
from cdc_core.instance import Instance
from cdc_core.meta.cursors import Cursors, Epoch
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.claim import Claim
from orchestration.stack.mysql import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

CLIENT = 1001


def config(mysql: MySqlServer, database: str, **changes: Any) -> InstanceConfig:
    values = {
        "destination": "shop",
        "address": f"{mysql.host}:{mysql.port}",
        "user": mysql.user,
        "password": mysql.password,
        "filter_regex": rf"{database}\..*",
        "heartbeat_seconds": 1,
    }
    return InstanceConfig.model_validate(values | changes)


@contextmanager
def running(config: InstanceConfig, nodes: Nodes, **options: Any) -> Iterator[Instance]:
    """An instance that has connected, unless told not to wait."""
    wait = options.pop("wait", True)
    instance = Instance(config, nodes, pauses=(0.2, 1.0), **options)
    instance.start()
    try:
        if wait:
            until(lambda: instance.status()["state"] == "running", instance)
        yield instance
    finally:
        instance.stop()


def until(condition: Callable[[], Any], instance: Instance, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, instance.status()
        time.sleep(0.02)


def claim(instance: Instance, rows: int = 1000, owner: str = "run-1", lease: float = 60) -> Claim:
    found = instance.claim(CLIENT, rows, 10, owner, lease)
    assert found is not None, instance.status()
    return found


def drain(instance: Instance, rows: int) -> int:
    """Claims and acks until so many rows came."""
    seen = 0
    while seen < rows:
        found = claim(instance)
        seen += found.rows
        instance.ack(CLIENT, found.batch_id, found.owner)
    return seen


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    """A database with one table."""
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        yield name


def execute(mysql: MySqlServer, database: str, *statements: str) -> None:
    """As one transaction, when there are several."""
    connection = mysql.root(database)
    with connection, connection.cursor() as cursor:
        if len(statements) > 1:
            cursor.execute("BEGIN")
        for statement in statements:
            cursor.execute(statement)
        if len(statements) > 1:
            cursor.execute("COMMIT")


def test_a_claim_tells_what_happened(mysql8: MySqlServer, shop: str) -> None:
    """Tables with counts by operation, times, the GTID; the ack moves the cursor to the claim's end."""
    with running(config(mysql8, shop), MemoryNodes()) as instance:
        assert instance.claim(CLIENT, 10, 0.1, "run-1", 60) is None
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a'), (2, 'b')", "UPDATE orders SET note = 'c'")
        execute(mysql8, shop, "DELETE FROM orders WHERE id = 1")
        until(lambda: instance.status()["backlog_rows"] == 5, instance)

        found = claim(instance)
        (orders,) = found.tables
        assert (orders.name, orders.inserts, orders.updates, orders.deletes) == (f"{shop}.orders", 2, 2, 1)
        assert (found.transactions, found.partial) == (2, False)
        assert sum(rows for _, rows in found.execute_times) == 5
        assert abs(found.execute_times[0][0] - time.time()) < 60
        assert ":" in found.end.gtid
        assert found.end.server_id == 1
        assert instance.slices(CLIENT, found.batch_id)
        assert instance.status()["lag_seconds"] > 0

        assert instance.ack(CLIENT, found.batch_id, "run-1") == found.end
        assert instance.ack(CLIENT, found.batch_id, "run-1") == found.end
        status = instance.status()
        assert (status["lag_seconds"], status["backlog_rows"], status["error"]) == (0, 0, None)
        assert instance.client(CLIENT)["acked"] == instance.client(CLIENT)["cursor"] == found.end.to_dict()
        with pytest.raises(RangeGone):
            instance.slices(CLIENT, found.batch_id)
        assert [table.name for table in instance.tables()] == [f"{shop}.orders"]
        unknown = {name for name, value in instance.metrics().items() if value is None}
        assert {name for name in unknown if not name.startswith("binlog_")} == set()  # looked at once a minute


def test_a_restart_goes_on_at_the_cursor(mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, shop: str) -> None:
    """Claimed and not acked, or written while away: it comes again; what was acked does not."""
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root)
    with running(config(mysql8, shop), nodes) as instance:
        first_generation = instance.client(CLIENT)["rollbacks"]
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        acked = claim(instance)
        instance.ack(CLIENT, acked.batch_id, "run-1")
        execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
        lost = claim(instance)
    execute(mysql8, shop, "INSERT INTO orders VALUES (3, 'c')")

    with running(config(mysql8, shop), nodes) as instance:
        until(lambda: instance.status()["backlog_rows"] == 2, instance)
        again = claim(instance)
        assert (again.rows, again.start) == (2, acked.end)
        assert again.batch_id > lost.batch_id
        assert instance.client(CLIENT)["rollbacks"] > first_generation
        with pytest.raises(SessionError, match=str(again.batch_id)):
            instance.ack(CLIENT, lost.batch_id, "run-1")
    nodes.close()


def test_a_start_at_the_servers_end_is_kept(mysql8: MySqlServer, shop: str) -> None:
    """What is written after the first start, and before any ack, is not lost by a restart."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes):
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")

    with running(config(mysql8, shop), nodes) as instance:
        assert drain(instance, 1) == 1


def test_a_configured_position_is_where_it_starts(mysql8: MySqlServer, shop: str) -> None:
    """Without a cursor the journal and position of the configuration count; with one they do not."""
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        journal, position = cursor.fetchone()[:2]
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    nodes = MemoryNodes()

    for rows in (2, 1):
        with running(config(mysql8, shop, journal_name=journal, position=position), nodes) as instance:
            assert drain(instance, rows) == rows
            execute(mysql8, shop, "INSERT INTO orders VALUES (3, 'c')") if rows == 2 else None


def test_a_full_ring_holds_up_the_source_and_loses_nothing(mysql8: MySqlServer, shop: str) -> None:
    """One transaction ten times the ring passes through in parts; the cursor moves with the last."""
    small = config(mysql8, shop, buffer_size=64, block_bytes=16384)
    with running(small, MemoryNodes()) as instance:
        before = instance.client(CLIENT)["cursor"]
        rows = [f"({n}, '{'x' * 150}')" for n in range(4000)]
        execute(mysql8, shop, *[f"INSERT INTO orders VALUES {','.join(rows[n : n + 40])}" for n in range(0, 4000, 40)])
        until(lambda: instance.store.ring.full, instance)
        assert instance.status()["store"]["bytes"] <= 64 * 1024

        seen, parts = 0, 0
        while seen < 4000:
            found = claim(instance, rows=500)
            seen, parts = seen + found.rows, parts + found.partial
            instance.ack(CLIENT, found.batch_id, "run-1")
            if found.partial:
                assert instance.client(CLIENT)["cursor"] == before

        assert seen == 4000
        assert parts > 5
        until(lambda: instance.client(CLIENT)["cursor"] != before, instance)
        assert instance.metrics()["sink_blocking_time"] > 0


def test_a_killed_connection_brings_nothing_twice(mysql8: MySqlServer, shop: str) -> None:
    """The dump is cut off again and again while rows are written."""
    with running(config(mysql8, shop), MemoryNodes()) as instance:
        for n in range(3):
            execute(mysql8, shop, f"INSERT INTO orders VALUES ({2 * n}, 'a')")
            kill_dumps(mysql8)
            execute(mysql8, shop, f"INSERT INTO orders VALUES ({2 * n + 1}, 'a')")
        until(lambda: instance.status()["backlog_rows"] == 6, instance)
        assert claim(instance).rows == 6
        assert instance.metrics()["reconnects"] >= 1


def kill_dumps(mysql: MySqlServer) -> None:
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        for (number,) in cursor.fetchall():
            cursor.execute(f"KILL {number}")


def test_a_wrong_password_fails_with_its_remedy_and_heals(mysql8: MySqlServer, shop: str) -> None:
    """The state is failed, calls say why; when the account is mended it runs by itself."""
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER wrong@'%' IDENTIFIED BY 'other'")
        cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO wrong@'%'")
        try:
            with running(config(mysql8, shop, user="wrong"), MemoryNodes(), wait=False) as instance:
                until(lambda: instance.status()["state"] == "failed", instance)
                error = instance.status()["error"]
                assert error["error"] == "SourceError"
                assert "password" in error["hint"].lower()
                assert error["since"] <= time.time()
                assert mysql8.password not in repr(instance.status())
                with pytest.raises(SourceUnavailable, match="failed"):
                    instance.claim(CLIENT, 10, 0, "run-1", 60)

                cursor.execute(f"ALTER USER wrong@'%' IDENTIFIED BY '{mysql8.password}'")
                until(lambda: instance.status()["state"] == "running", instance)
                execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
                assert drain(instance, 1) == 1
                assert instance.status()["error"] is None
        finally:
            cursor.execute("DROP USER wrong@'%'")


def test_what_cannot_be_decoded_stops_before_it(mysql8: MySqlServer, shop: str) -> None:
    """A statement-format change: failed, with the place; the cursor stays, and what came before is served."""
    with running(config(mysql8, shop), MemoryNodes()) as instance:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        with mysql8.root(shop) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = STATEMENT")
            cursor.execute("INSERT INTO orders VALUES (2, 'b')")
        until(lambda: instance.status()["error"] is not None, instance)

        error = instance.status()["error"]
        assert (error["error"], "mysql-bin." in error["place"]) == ("DecodeError", True)
        assert drain(instance, 1) == 1
        cursor_then = instance.client(CLIENT)["cursor"]
        time.sleep(0.5)
        assert instance.client(CLIENT)["cursor"] == cursor_then
        assert instance.status()["state"] == "failed"
        assert instance.metrics()["parse_errors"] >= 1


def test_the_cursor_of_a_quiet_schema_moves(mysql8: MySqlServer, shop: str) -> None:
    """Changes of other tables alone: the cursor follows, `acked` does not."""
    with mysql8.database() as other, running(config(mysql8, shop), MemoryNodes()) as instance:
        before = instance.client(CLIENT)["cursor"]
        execute(mysql8, other, "CREATE TABLE t (id INT PRIMARY KEY)")
        for n in range(3):
            execute(mysql8, other, f"INSERT INTO t VALUES ({n})")
        until(lambda: instance.status()["store"]["put"] > 0, instance)

        until(lambda: instance.client(CLIENT)["cursor"] != before, instance)

        assert instance.client(CLIENT)["acked"] is None
        until(lambda: instance.status()["store"]["bytes"] == 0, instance)


def test_zookeeper_away_fails_the_ack_which_may_be_made_again(mysql8: MySqlServer, tmp_path: Any, shop: str) -> None:
    """The claim stays outstanding, the cursor stands; when ZooKeeper is back the same ack goes through."""
    from tests.conftest import free_port

    own = ZooKeeper(tmp_path, free_port()).start()
    nodes = ZookeeperNodes(own.hosts)
    with running(config(mysql8, shop), nodes) as instance:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        found = claim(instance)
        own.kill()
        with pytest.raises(CursorError, match="does not answer"):
            instance.ack(CLIENT, found.batch_id, "run-1")
        assert [c["batch_id"] for c in instance.client(CLIENT)["claims"]] == [found.batch_id]

        own.start()
        deadline = time.monotonic() + 20
        while True:
            try:
                instance.ack(CLIENT, found.batch_id, "run-1")
                break
            except CursorError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        kept = Cursors(nodes, "shop").read(CLIENT)
        assert kept is not None
        assert kept.postion == found.end
        assert (kept.address, kept.port) == (mysql8.host, mysql8.port)
    nodes.close()
    own.stop()


def test_another_client_has_its_own_cursor(mysql8: MySqlServer, shop: str) -> None:
    """It starts with its first claim, and each client gets every row from there on."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes) as instance:
        assert instance.claim(1002, 10, 0, "run-2", 60) is None
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        assert drain(instance, 1) == 1
        other = instance.claim(1002, 10, 5, "run-2", 60)
        assert other is not None
        assert (other.client_id, other.rows) == (1002, 1)
        assert instance.status()["store"]["bytes"] > 0

    with running(config(mysql8, shop), nodes) as instance:
        other = instance.claim(1002, 10, 5, "run-2", 60)
        assert other is not None
        assert other.rows == 1
        assert instance.claim(CLIENT, 10, 0.2, "run-1", 60) is None


class OnceAway(MemoryNodes):
    """Refuses the first write of client 1002's cursor once told to."""

    refuse = False

    def write(self, changes: Any) -> None:
        if self.refuse and any("/1002/cursor" in path for path in changes):
            self.refuse = False
            raise CursorError("away", place="memory", hint="Again.")
        super().write(changes)


def test_a_start_that_breaks_off_begins_at_the_smallest_cursor_again(mysql8: MySqlServer, shop: str) -> None:
    """One client was made known, the next was not: no row of that one is passed over."""
    nodes = OnceAway()
    with running(config(mysql8, shop), nodes) as instance:
        instance.claim(1002, 10, 0, "run-2", 60)
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        assert drain(instance, 1) == 1
    nodes.refuse = True
    with running(config(mysql8, shop), nodes, wait=False) as instance:
        until(lambda: instance.status()["state"] == "running", instance)
        behind = instance.claim(1002, 10, 5, "run-2", 60)
        assert behind is not None
        assert behind.rows == 1
    assert not nodes.refuse


def test_a_dead_claimers_batch_comes_back(mysql8: MySqlServer, shop: str) -> None:
    """A waiting claimer gets it when the lease ends; the late ack of the first is refused."""
    with running(config(mysql8, shop), MemoryNodes()) as instance:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        dead = claim(instance, lease=0.5)
        heir = claim(instance, owner="run-2")

        assert (heir.start, heir.end, heir.rows) == (dead.start, dead.end, dead.rows)
        with pytest.raises(SessionError, match=str(heir.batch_id)):
            instance.ack(CLIENT, dead.batch_id, "run-1")
        with pytest.raises(SessionError, match="belongs to 'run-2'"):
            instance.ack(CLIENT, heir.batch_id, "run-1")
        assert instance.rollback(CLIENT, None, "run-1", "gone") == []
        assert instance.rollback(CLIENT, heir.batch_id, "run-2", "merge failed") == [heir.batch_id]


def test_stopped_tables_are_kept(mysql8: MySqlServer, shop: str) -> None:
    """Over a restart, beside the cursor."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes) as instance:
        start = claim_start(instance, mysql8, shop)
        instance.stop_table(CLIENT, f"{shop}.orders", "column changed", "Rebuild it.", start)
    with running(config(mysql8, shop), nodes) as instance:
        (stopped,) = instance.client(CLIENT)["stopped"]
        assert (stopped["table"], stopped["position"]) == (f"{shop}.orders", start.to_dict())
        instance.resume_table(CLIENT, f"{shop}.orders")
        assert instance.client(CLIENT)["stopped"] == []


def claim_start(instance: Instance, mysql: MySqlServer, shop: str) -> Any:
    execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
    return claim(instance).start


def test_mysql_goes_away_and_comes_back(new_mysql: Any) -> None:
    """Killed: failed or not connected, with the reason; started again it goes on where it was."""
    mysql = new_mysql("8.0.31")
    with mysql.database() as shop:
        execute(mysql, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        with running(config(mysql, shop), MemoryNodes()) as instance:
            execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
            assert drain(instance, 1) == 1
            mysql.kill()
            until(lambda: instance.status()["state"] == "failed", instance)
            assert instance.status()["error"]["error"] == "SourceUnavailable"

            mysql.start()
            until(lambda: instance.status()["state"] == "running", instance, seconds=40)
            execute(mysql, shop, "INSERT INTO orders VALUES (2, 'b')")
            assert drain(instance, 1) == 1


# -- starts


def cursor_at(config: InstanceConfig, position: EntryPosition, nodes: Nodes) -> None:
    Cursors(nodes, "shop").write(CLIENT, LogPosition(config.host, config.port, position))


def test_a_start_by_time(mysql8: MySqlServer, shop: str) -> None:
    """From the transaction at that time on; the rule is told."""
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
    now = int(time.time() * 1000)
    time.sleep(1.1)
    execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
    with running(config(mysql8, shop, timestamp=now), MemoryNodes()) as instance:
        assert drain(instance, 2) >= 2
        start = instance.status()["start"]
        assert start["rule"] == "the master's configured time"
        assert start["looked_at"].startswith("no cursor")
        assert start["chosen"]["journalName"].startswith("mysql-bin.")


def test_a_cursor_inside_a_transaction(mysql8: MySqlServer, shop: str) -> None:
    """Found out by its rows, and read from the transaction's start on: what lies behind the cursor comes, once."""
    start = EntryPosition(*mysql8.position())
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')", "INSERT INTO orders VALUES (2, 'b')")
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{start.journal_name}' FROM {start.position}")
        ends = [int(row[4]) for row in cursor.fetchall() if row[2] == "Table_map"]
    settings, nodes = config(mysql8, shop), MemoryNodes()
    cursor_at(settings, EntryPosition(start.journal_name, ends[0]), nodes)
    with running(settings, nodes) as instance:
        until(lambda: instance.status()["backlog_rows"] == 2, instance)
        assert drain(instance, 2) == 2
        assert "start of the transaction" in instance.status()["start"]["rule"]
        assert instance.status()["error"] is None


def test_another_address_goes_by_time(mysql8: MySqlServer, shop: str) -> None:
    """A cursor of another server: its time, less a minute, here, in an epoch of its own; also where its journals have
    higher numbers than the ones here."""
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
    settings, nodes = config(mysql8, shop, fallback_seconds=0), MemoryNodes()
    elsewhere = EntryPosition("mysql-bin.000001", 4, int(time.time() * 1000), server_id=9)
    Cursors(nodes, "shop").write(CLIENT, LogPosition("elsewhere", 3306, elsewhere))
    with running(settings, nodes) as instance:
        assert "another address" in instance.status()["start"]["rule"]
        assert Cursors(nodes, "shop").read(CLIENT).address == settings.host  # type: ignore[union-attr]
    nodes = MemoryNodes()
    ahead = EntryPosition("mysql-bin.000900", 4, int(time.time() * 1000), server_id=9)
    Cursors(nodes, "shop").write(CLIENT, LogPosition("elsewhere", 3306, ahead))
    with running(settings, nodes) as instance:
        assert "another address" in instance.status()["start"]["rule"]
        kept = Cursors(nodes, "shop").read(CLIENT)
        assert kept is not None
        assert kept.address == settings.host
        assert kept.postion < ahead
        assert Cursors(nodes, "shop").present(CLIENT) == Epoch(1, 1, {})
        execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
        assert claim(instance).moved == 1


def test_cursors_of_several_servers(mysql8: MySqlServer, shop: str) -> None:
    """They have no order, so that none of them is the smallest."""
    settings, nodes = config(mysql8, shop), MemoryNodes()
    place = EntryPosition("mysql-bin.000001", 4, int(time.time() * 1000), server_id=9)
    cursors = Cursors(nodes, "shop")
    cursors.write(CLIENT, LogPosition("elsewhere", 3306, place))
    cursors.write(1002, LogPosition("another", 3306, place))
    with running(settings, nodes, wait=False) as instance:
        until(lambda: instance.status()["error"], instance)
        assert "several servers: another:3306, elsewhere:3306" in instance.status()["error"]["message"]
        assert "--moved --all" in instance.status()["error"]["hint"]


def test_the_same_server_at_another_address(mysql8: MySqlServer, shop: str) -> None:
    """It is known by its uuid: the cursor goes on, in its epoch."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes) as instance:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        drain(instance, 1)
    execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
    with running(config(mysql8, shop, address=f"localhost:{mysql8.port}"), nodes) as instance:
        assert instance.status()["start"]["rule"] == "the last position"
        assert drain(instance, 1) == 1
    cursors = Cursors(nodes, "shop")
    assert cursors.read(CLIENT).address == "localhost"  # type: ignore[union-attr]
    assert cursors.epoch(CLIENT) == 0


def test_a_cursor_that_names_the_host(mysql8: MySqlServer, shop: str) -> None:
    """A Java Canal server writes the name that the address has: the position is this server's all the same, also where
    another client's cursor has the address."""
    settings, nodes = config(mysql8, shop), MemoryNodes()
    assert settings.host == "127.0.0.1"
    here = EntryPosition(*mysql8.position(), int(time.time() * 1000), server_id=1)
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
    Cursors(nodes, "shop").write(CLIENT, LogPosition("localhost", settings.port, here))
    Cursors(nodes, "shop").write(1002, LogPosition("127.0.0.1", settings.port, here))
    with running(settings, nodes) as instance:
        assert drain(instance, 1) == 1
        assert instance.status()["start"]["rule"] == "the last position"


def test_a_purged_cursor_fails_or_is_given_up(mysql8: MySqlServer, shop: str) -> None:
    """As canal.auto.reset.latest.pos.mode says; given up, it is told loudly."""
    gone = EntryPosition("mysql-bin.000000", 4)
    nodes = MemoryNodes()
    settings = config(mysql8, shop)
    cursor_at(settings, gone, nodes)
    with running(settings, nodes, wait=False) as instance:
        until(lambda: instance.status()["error"], instance)
        assert "was purged" in instance.status()["error"]["message"]
    with running(config(mysql8, shop, reset_to_end=True), nodes) as instance:
        start = instance.status()["start"]
        assert "was purged" in start["lost"]
        assert start["chosen"]["position"] == mysql8.position()[1]
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        assert drain(instance, 1) == 1
