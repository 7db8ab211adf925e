"""One destination on a real MySQL, with its cursors in a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from structlog.testing import capture_logs

from cdc_core.config import InstanceConfig
from cdc_core.contract.reached import How
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.destination.capture import Capture
from cdc_core.errors import CursorError, RangeGone, SessionError, SourceUnavailable
from cdc_core.gtid import Gtid
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.epoch import Epoch
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.captures import CLIENT, all_read, claim, config, drain, execute, running, until
from tests.support.servers import kill_dumps

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    """A database with one table."""
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        yield name


def test_a_claim_says_what_happened(mysql8: MySqlServer, shop: str) -> None:
    """A claim has tables with counts by operation, times and the GTID; the ack moves the cursor to its end."""
    with running(config(mysql8, shop), MemoryNodes()) as capture:
        assert capture.service.claim(CLIENT, 10, 0.1, "run-1", 60) is None
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a'), (2, 'b')", "UPDATE orders SET note = 'c'")
        execute(mysql8, shop, "DELETE FROM orders WHERE id = 1")
        all_read(capture, mysql8)

        found = claim(capture)
        (orders,) = found.tables
        assert (orders.name, orders.inserts, orders.updates, orders.deletes) == (f"{shop}.orders", 2, 2, 1)
        assert (found.transactions, found.partial) == (2, False)
        assert sum(rows for _, rows in found.execute_times) == 5
        assert abs(found.execute_times[0][0] - time.time()) < 60
        assert len(found.moments) == 4
        assert found.execute_times[0][0] <= found.moments[0]
        assert list(found.moments) == sorted(found.moments)
        assert abs(found.moments[3] - time.time()) < 60
        assert isinstance(found.end.gtid, Gtid)
        assert found.end.server_id == 1
        assert capture.service.slices(CLIENT, found.batch_id)
        assert capture.status().lag_seconds > 0
        out = capture.metrics()
        assert (out.acked_claims, out.unacked_batches, out.claim_seconds) == (0, 1, 0)
        assert 0 < out.oldest_claim_seconds < 60
        assert 0 < out.store_bytes < out.store_capacity_bytes

        assert capture.service.ack(CLIENT, found.batch_id, "run-1") == found.end
        assert capture.service.ack(CLIENT, found.batch_id, "run-1") == found.end
        status = capture.status()
        assert (status.lag_seconds, status.backlog_rows, status.error) == (0, 0, None)
        numbers = capture.metrics()
        assert (numbers.acked_claims, numbers.oldest_claim_seconds, numbers.rollbacks) == (1, 0, 0)
        assert out.oldest_claim_seconds <= numbers.claim_seconds < 60
        stages = numbers.stage_seconds
        assert stages["claim"] > 0 < stages["ack"]
        assert stages["apply"] + stages["ack"] == pytest.approx(numbers.claim_seconds, abs=1)
        assert sum(stages[name] for name in ("quiet", "network", "decode", "store")) > stages["apply"]
        assert status.stages.keys() == stages.keys()
        client = capture.service.client(CLIENT)
        assert client.reached.position.to_dict() == client.cursor.to_dict() == found.end.to_dict()
        with pytest.raises(RangeGone):
            capture.service.slices(CLIENT, found.batch_id)
        assert [table.name for table in capture.service.tables()] == [f"{shop}.orders"]
        unknown = {name for name, value in asdict(capture.metrics()).items() if value is None}
        rare = {name for name in unknown if name.startswith("binlog_")}  # looked at once a minute
        assert unknown == rare | {"source_failed_heartbeats"}  # detecting is off


def test_a_restart_goes_on_at_the_cursor(mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, shop: str) -> None:
    """What was not acked, or was written meanwhile, comes; what was acked does not."""
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root)
    with running(config(mysql8, shop), nodes) as capture:
        before = capture.service.client(CLIENT)
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        acked = claim(capture)
        capture.service.ack(CLIENT, acked.batch_id, "run-1")
        execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
        lost = claim(capture)
    execute(mysql8, shop, "INSERT INTO orders VALUES (3, 'c')")

    with running(config(mysql8, shop), nodes) as capture:
        all_read(capture, mysql8)
        again = claim(capture)
        assert (again.rows, again.start) == (2, acked.end)
        assert again.batch_id > lost.batch_id
        after = capture.service.client(CLIENT)
        assert (before.rollbacks, after.rollbacks) == (0, 0)
        assert after.generation > before.generation
        with pytest.raises(SessionError, match=str(again.batch_id)):
            capture.service.ack(CLIENT, lost.batch_id, "run-1")
    nodes.close()


def test_a_start_at_the_servers_end_is_kept(mysql8: MySqlServer, shop: str) -> None:
    """Rows written after the first start and before any ack survive a restart."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes):
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")

    with running(config(mysql8, shop), nodes) as capture:
        assert drain(capture, 1) == 1


def test_a_configured_position_is_where_it_starts(mysql8: MySqlServer, shop: str) -> None:
    """The configured journal and position count only without a cursor."""
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        journal, position = cursor.fetchone()[:2]
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    nodes = MemoryNodes()

    for rows in (2, 1):
        with running(config(mysql8, shop, journal_name=journal, position=position), nodes) as capture:
            assert drain(capture, rows) == rows
            execute(mysql8, shop, "INSERT INTO orders VALUES (3, 'c')") if rows == 2 else None


def test_a_full_ring_holds_up_the_source_and_loses_nothing(mysql8: MySqlServer, shop: str) -> None:
    """One transaction ten times the ring passes in parts; the cursor moves with the last."""
    small = config(mysql8, shop, buffer_size=64, block_bytes=16384)
    with running(small, MemoryNodes()) as capture:
        before = capture.service.client(CLIENT).cursor
        rows = [f"({n}, '{'x' * 150}')" for n in range(4000)]
        execute(mysql8, shop, *[f"INSERT INTO orders VALUES {','.join(rows[n : n + 40])}" for n in range(0, 4000, 40)])
        until(lambda: capture.store.ring.full, capture)
        assert capture.status().store.bytes <= 64 * 1024

        seen, parts = 0, 0
        while seen < 4000:
            found = claim(capture, rows=500)
            seen, parts = seen + found.rows, parts + found.partial
            capture.service.ack(CLIENT, found.batch_id, "run-1")
            if found.partial:
                assert capture.service.client(CLIENT).cursor == before

        assert seen == 4000
        assert parts > 5
        until(lambda: capture.service.client(CLIENT).cursor != before, capture)
        assert capture.metrics().sink_blocking_time > 0


def test_a_killed_connection_brings_nothing_twice(mysql8: MySqlServer, shop: str) -> None:
    """The dump is killed again and again while rows are written."""
    with running(config(mysql8, shop), MemoryNodes()) as capture:
        for n in range(3):
            execute(mysql8, shop, f"INSERT INTO orders VALUES ({2 * n}, 'a')")
            kill_dumps(mysql8)
            execute(mysql8, shop, f"INSERT INTO orders VALUES ({2 * n + 1}, 'a')")
        all_read(capture, mysql8)
        assert claim(capture).rows == 6
        assert capture.metrics().reconnects >= 1


def test_a_wrong_password_fails_with_its_remedy_and_heals(mysql8: MySqlServer, shop: str) -> None:
    """The state is failed and calls say why; once the account is corrected it runs by itself."""
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER wrong@'%' IDENTIFIED BY 'other'")
        cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO wrong@'%'")
        try:
            with running(config(mysql8, shop, user="wrong"), MemoryNodes(), wait=False) as capture:
                error = until(lambda: capture.status().error, capture)
                assert capture.status().state == "failed"
                assert error.error == "SourceError"
                assert "password" in error.hint.lower()
                assert error.since <= time.time()
                assert mysql8.password not in repr(capture.status())
                with pytest.raises(SourceUnavailable, match="failed"):
                    capture.service.claim(CLIENT, 10, 0, "run-1", 60)

                cursor.execute(f"ALTER USER wrong@'%' IDENTIFIED BY '{mysql8.password}'")
                until(lambda: capture.status().state == "running", capture)
                execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
                assert drain(capture, 1) == 1
                assert capture.status().error is None
        finally:
            cursor.execute("DROP USER wrong@'%'")


@pytest.mark.parametrize("together", [False, True], ids=["", "in one block"])
def test_what_cannot_be_decoded_stops_before_it(mysql8: MySqlServer, shop: str, *, together: bool) -> None:
    """A change in statement format fails with its place. The cursor stays, and earlier rows are served."""
    nodes = MemoryNodes()
    if together:  # the cursor is before both when the capture starts
        with running(config(mysql8, shop), nodes):
            pass
        _row_and_statement(mysql8, shop)
    with running(config(mysql8, shop), nodes, wait=not together) as capture:
        if not together:
            _row_and_statement(mysql8, shop)
        error = until(lambda: capture.status().error, capture)
        assert (error.error, "mysql-bin." in error.place) == ("DecodeError", True)
        assert drain(capture, 1) == 1
        cursor_then = capture.service.client(CLIENT).cursor
        time.sleep(0.5)
        assert capture.service.client(CLIENT).cursor == cursor_then
        assert capture.status().state == "failed"
        assert capture.metrics().parse_errors >= 1


def _row_and_statement(mysql: MySqlServer, shop: str) -> None:
    """A row as one transaction, and a change in statement format as the next."""
    execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
    with mysql.root(shop) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("INSERT INTO orders VALUES (2, 'b')")


def test_the_cursor_of_a_quiet_schema_moves(mysql8: MySqlServer, shop: str) -> None:
    """When only other tables change the cursor follows, and `acked` does not."""
    with mysql8.database() as other, running(config(mysql8, shop), MemoryNodes()) as capture:
        before = capture.service.client(CLIENT).cursor
        execute(mysql8, other, "CREATE TABLE t (id INT PRIMARY KEY)")
        for n in range(3):
            execute(mysql8, other, f"INSERT INTO t VALUES ({n})")
        until(lambda: capture.status().store.put > 0, capture)

        until(lambda: capture.service.client(CLIENT).cursor != before, capture)

        assert capture.service.client(CLIENT).reached.how is How.START
        until(lambda: capture.service.client(CLIENT) and capture.status().store.bytes == 0, capture)


def test_a_stop_logs_no_error(mysql8: MySqlServer, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop wakes the thread that moves cursors, whose write is refused by then."""
    with mysql8.database() as other, running(config(mysql8, shop, flush_ms=60_000), MemoryNodes()) as capture:
        execute(mysql8, other, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        until(lambda: capture.status().store.put > 0, capture)
        ends, wakes = capture.sessions.close, capture.store.close
        monkeypatch.setattr(capture.store, "close", lambda: None)
        monkeypatch.setattr(capture.sessions, "close", lambda: (ends(), wakes()))
        with capture_logs() as logs:
            capture.stop()
    assert capture.status().error is not None  # the write was tried, and refused
    assert [one for one in logs if one["log_level"] == "error"] == []


def test_zookeeper_away_fails_the_ack_which_may_be_made_again(mysql8: MySqlServer, tmp_path: Any, shop: str) -> None:
    """The claim stays outstanding and the cursor stands; the same ack succeeds when ZooKeeper is back."""
    from tests.support.servers import free_port

    own = ZooKeeper(tmp_path, free_port()).start()
    nodes = ZookeeperNodes(own.hosts)
    with running(config(mysql8, shop), nodes) as capture:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        found = claim(capture)
        own.kill()
        with pytest.raises(CursorError, match="does not answer"):
            capture.service.ack(CLIENT, found.batch_id, "run-1")
        assert [c.batch_id for c in capture.service.client(CLIENT).claims] == [found.batch_id]

        own.start()
        deadline = time.monotonic() + 60
        while True:
            try:
                capture.service.ack(CLIENT, found.batch_id, "run-1")
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
    """It starts with its subscription, and each client gets every row from there on."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes) as capture:
        capture.service.subscribe(1002)
        assert capture.service.claim(1002, 10, 0, "run-2", 60) is None
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        assert drain(capture, 1) == 1
        other = capture.service.claim(1002, 10, 60, "run-2", 60)
        assert other is not None
        assert (other.client_id, other.rows) == (1002, 1)
        assert capture.status().store.bytes > 0

    with running(config(mysql8, shop), nodes) as capture:
        other = capture.service.claim(1002, 10, 60, "run-2", 60)
        assert other is not None
        assert other.rows == 1
        assert capture.service.claim(CLIENT, 10, 0.2, "run-1", 60) is None


class OnceAway(MemoryNodes):
    """Refuses the first write of client 1002's cursor once it is asked to."""

    refuse = False

    def write(self, changes: Any) -> None:
        if self.refuse and any("/1002/cursor" in path for path in changes):
            self.refuse = False
            raise CursorError("away", place="memory", hint="Again.")
        super().write(changes)


def test_a_start_that_breaks_off_begins_at_the_smallest_cursor_again(mysql8: MySqlServer, shop: str) -> None:
    """One client was registered and the next was not: no row of the latter is skipped."""
    nodes = OnceAway()
    with running(config(mysql8, shop), nodes) as capture:
        capture.service.subscribe(1002)
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        assert drain(capture, 1) == 1
    nodes.refuse = True
    with running(config(mysql8, shop), nodes, wait=False) as capture:
        until(lambda: capture.status().state == "running", capture)
        behind = capture.service.claim(1002, 10, 60, "run-2", 60)
        assert behind is not None
        assert behind.rows == 1
    assert not nodes.refuse


def test_a_dead_claimers_batch_comes_back(mysql8: MySqlServer, shop: str) -> None:
    """A waiting claimer gets it when the lease ends; the late ack of the first is refused."""
    with running(config(mysql8, shop), MemoryNodes()) as capture:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        dead = claim(capture, lease=0.5)
        heir = claim(capture, owner="run-2")

        assert (heir.start, heir.end, heir.rows) == (dead.start, dead.end, dead.rows)
        with pytest.raises(SessionError, match=str(heir.batch_id)):
            capture.service.ack(CLIENT, dead.batch_id, "run-1")
        with pytest.raises(SessionError, match="belongs to 'run-2'"):
            capture.service.ack(CLIENT, heir.batch_id, "run-1")
        assert capture.service.rollback(CLIENT, None, "run-1", "gone") == []
        assert capture.service.rollback(CLIENT, heir.batch_id, "run-2", "merge failed") == [heir.batch_id]


def test_stopped_tables_are_kept(mysql8: MySqlServer, shop: str) -> None:
    """Stopped tables survive a restart, next to the cursor."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes) as capture:
        start = claim_start(capture, mysql8, shop)
        capture.service.stop_table(CLIENT, StoppedTable(f"{shop}.orders", "column changed", "Rebuild it.", start))
    with running(config(mysql8, shop), nodes) as capture:
        (stopped,) = capture.service.client(CLIENT).stopped
        assert (stopped.table, stopped.position) == (f"{shop}.orders", start)
        capture.service.lift_stop(CLIENT, f"{shop}.orders", None)
        assert capture.service.client(CLIENT).stopped == ()


def claim_start(capture: Capture, mysql: MySqlServer, shop: str) -> Any:
    execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
    return claim(capture).start


def test_mysql_goes_away_and_comes_back(new_mysql: Any) -> None:
    """While MySQL is killed the state says so with the reason; afterwards the destination goes on where it was."""
    mysql = new_mysql("8.0.31")
    with mysql.database() as shop:
        execute(mysql, shop, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(200))")
        with running(config(mysql, shop), MemoryNodes()) as capture:
            execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
            assert drain(capture, 1) == 1
            mysql.kill()
            error = until(lambda: capture.status().error, capture)
            assert (capture.status().state, error.error) == ("failed", "SourceUnavailable")

            mysql.start()
            until(lambda: capture.status().state == "running", capture)
            execute(mysql, shop, "INSERT INTO orders VALUES (2, 'b')")
            assert drain(capture, 1) == 1


# -- starts


def cursor_at(config: InstanceConfig, position: EntryPosition, nodes: Nodes) -> None:
    Cursors(nodes, "shop").write(CLIENT, LogPosition(config.host, config.port, position))


def test_a_start_by_time(mysql8: MySqlServer, shop: str) -> None:
    """It starts at the transaction of that time, and the status names the rule."""
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
    now = int(time.time() * 1000)
    time.sleep(1.1)
    execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
    with running(config(mysql8, shop, timestamp=now), MemoryNodes()) as capture:
        assert drain(capture, 2) >= 2
        start = capture.status().start
        assert start.rule == "the master's configured time"
        assert start.looked_at.startswith("no cursor")
        assert start.chosen.journal_name.startswith("mysql-bin.")


def test_a_cursor_inside_a_transaction(mysql8: MySqlServer, shop: str) -> None:
    """The transaction is read from its start; the rows after the cursor come, once."""
    start = EntryPosition(*mysql8.position())
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')", "INSERT INTO orders VALUES (2, 'b')")
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{start.journal_name}' FROM {start.position}")
        ends = [int(row[4]) for row in cursor.fetchall() if row[2] == "Table_map"]
    settings, nodes = config(mysql8, shop), MemoryNodes()
    cursor_at(settings, EntryPosition(start.journal_name, ends[0]), nodes)
    with running(settings, nodes) as capture:
        all_read(capture, mysql8)
        assert drain(capture, 2) == 2
        assert "start of the transaction" in capture.status().start.rule
        assert capture.status().error is None


def test_another_address_goes_by_time(mysql8: MySqlServer, shop: str) -> None:
    """A cursor of another server: its time, less a minute, here, in an epoch of its own; also where its journals have
    higher numbers than the ones here."""
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
    settings, nodes = config(mysql8, shop, fallback_seconds=0), MemoryNodes()
    elsewhere = EntryPosition("mysql-bin.000001", 4, int(time.time() * 1000), server_id=9)
    Cursors(nodes, "shop").write(CLIENT, LogPosition("elsewhere", 3306, elsewhere))
    with running(settings, nodes) as capture:
        assert "another address" in capture.status().start.rule
        assert Cursors(nodes, "shop").read(CLIENT).address == settings.host  # type: ignore[union-attr]
    nodes = MemoryNodes()
    ahead = EntryPosition("mysql-bin.000900", 4, int(time.time() * 1000), server_id=9)
    Cursors(nodes, "shop").write(CLIENT, LogPosition("elsewhere", 3306, ahead))
    with running(settings, nodes) as capture:
        assert "another address" in capture.status().start.rule
        kept = Cursors(nodes, "shop").read(CLIENT)
        assert kept is not None
        assert kept.address == settings.host
        assert kept.postion < ahead
        assert Cursors(nodes, "shop").epoch(CLIENT) == Epoch(1, 1, {})
        execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
        assert claim(capture).moved == 1


def test_cursors_of_several_servers(mysql8: MySqlServer, shop: str) -> None:
    """They have no order, so that none of them is the smallest."""
    settings, nodes = config(mysql8, shop), MemoryNodes()
    place = EntryPosition("mysql-bin.000001", 4, int(time.time() * 1000), server_id=9)
    cursors = Cursors(nodes, "shop")
    cursors.write(CLIENT, LogPosition("elsewhere", 3306, place))
    cursors.write(1002, LogPosition("another", 3306, place))
    with running(settings, nodes, wait=False) as capture:
        error = until(lambda: capture.status().error, capture)
        assert "several servers: another:3306, elsewhere:3306" in error.message
        assert "--moved --all" in error.hint


def test_the_same_server_at_another_address(mysql8: MySqlServer, shop: str) -> None:
    """It is known by its uuid: the cursor goes on, in its epoch."""
    nodes = MemoryNodes()
    with running(config(mysql8, shop), nodes) as capture:
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        drain(capture, 1)
    execute(mysql8, shop, "INSERT INTO orders VALUES (2, 'b')")
    with running(config(mysql8, shop, address=f"localhost:{mysql8.port}"), nodes) as capture:
        assert capture.status().start.rule == "the last position"
        assert drain(capture, 1) == 1
    cursors = Cursors(nodes, "shop")
    assert cursors.read(CLIENT).address == "localhost"  # type: ignore[union-attr]
    assert cursors.epoch(CLIENT).number == 0


def test_a_cursor_that_names_the_host(mysql8: MySqlServer, shop: str) -> None:
    """A Java Canal server writes the name that the address has: the position is this server's all the same, also where
    another client's cursor has the address."""
    settings, nodes = config(mysql8, shop), MemoryNodes()
    assert settings.host == "127.0.0.1"
    here = EntryPosition(*mysql8.position(), int(time.time() * 1000), server_id=1)
    execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
    Cursors(nodes, "shop").write(CLIENT, LogPosition("localhost", settings.port, here))
    Cursors(nodes, "shop").write(1002, LogPosition("127.0.0.1", settings.port, here))
    with running(settings, nodes) as capture:
        assert drain(capture, 1) == 1
        assert capture.status().start.rule == "the last position"


def test_a_purged_cursor_fails_or_is_given_up(mysql8: MySqlServer, shop: str) -> None:
    """As canal.auto.reset.latest.pos.mode says; given up, it is reported loudly. What comes is of a new epoch, of which
    no row comes again: a table without a key would take the lost rows for its own after a rewind."""
    gone = EntryPosition("mysql-bin.000000", 4)
    nodes = MemoryNodes()
    settings = config(mysql8, shop)
    cursor_at(settings, gone, nodes)
    with running(settings, nodes, wait=False) as capture:
        until(lambda: capture.status().error, capture)
        assert "was purged" in capture.status().error.message
    with running(config(mysql8, shop, reset_to_end=True), nodes) as capture:
        start = capture.status().start
        assert "was purged" in str(start.lost)
        assert start.chosen.position == mysql8.position()[1]
        found, place = Cursors(nodes, "shop").epoch(CLIENT), start.chosen.version()
        assert (found.number, found.moved, found.seamless) == (1, 0, {1: place})
        execute(mysql8, shop, "INSERT INTO orders VALUES (1, 'a')")
        assert drain(capture, 1) == 1
