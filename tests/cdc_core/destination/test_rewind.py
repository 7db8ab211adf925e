"""Setting cursors by hand: the plan, what is refused, and what is kept."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from cdc_core.config import InstanceConfig, load_service
from cdc_core.contract.stopped_table import CHANGES_PURGED, StoppedTable
from cdc_core.destination.events import Configuration
from cdc_core.destination.rewind import Move, RewindPlan, RewindTarget, carry_out, plan
from cdc_core.destination.runner import Destination
from cdc_core.errors import CursorError, PositionError, RangeGone, SessionError
from cdc_core.gtid import Gtids
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.server.server import CanalServer
from cdc_core.source.settings import source_settings
from cdc_core.source.start.tree import ByGtid
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import claim, config, execute, running
from tests.support.mortal import Mortal, dies
from tests.support.servers import MySqlFactory, executed_gtids
from tests.support.waiting import until

AT = LogPosition("127.0.0.1", 3306, EntryPosition("mysql-bin.000003", 900))


def test_a_rewind_begins_a_new_epoch() -> None:
    """Cursor and epoch change together. What was acked belongs to the old epoch; stopped tables stay."""
    cursors = Cursors(MemoryNodes(), "shop")
    cursors.subscribe(1001)
    cursors.write(1001, AT, AT.postion)
    lower = AT.at(EntryPosition("mysql-bin.000001", 4))
    with pytest.raises(CursorError):
        cursors.write(1001, lower)

    assert cursors.rewind(1001, lower) == 1
    assert (cursors.read(1001), cursors.epoch(1001).number, cursors.acked(1001)) == (lower, 1, None)
    assert cursors.epoch(1001).moved == 0
    assert cursors.rewind(1001, AT, moved=True) == 2
    assert (cursors.epoch(1001).moved, cursors.rewind(1001, lower), cursors.epoch(1001).moved) == (2, 3, 2)
    cursors.write(1001, AT, AT.postion)
    assert cursors.acked(1001) == AT.postion


def test_tables_to_be_reloaded_stop_with_the_cursor() -> None:
    """In one write, from the new place on. A table that was stopped keeps its reason."""
    nodes = MemoryNodes()
    cursors = Cursors(nodes, "shop")
    cursors.subscribe(1001)
    cursors.write(1001, AT, AT.postion)
    cursors.stopped.stop(1001, StoppedTable("s.paused", "a person", "Resume it.", AT.postion))
    later = AT.at(EntryPosition("mysql-bin.000009", 4))
    written = []
    nodes.write = lambda changes, write=nodes.write: written.append(write(changes))  # type: ignore[method-assign]

    assert carry_out(cursors, RewindPlan(later, (Move(1001, AT, None, False),), anew=("s.orders", "s.paused"))) == {
        1001: 1
    }

    assert len(written) == 1
    orders, paused = sorted(cursors.stopped.of(1001), key=lambda one: one.table)
    assert (orders.reason, paused.reason) == (CHANGES_PURGED, "a person")
    assert "sluice snapshot shop s.orders" in orders.hint
    assert {(one.passed, one.copy_needed) for one in (orders, paused)} == {(later.postion, True)}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("known", range(1, 5))
def test_a_rewind_of_a_stopped_destination_finishes_a_move_first(known: int, *, after: bool) -> None:
    """A move that was killed at any of its writes, and a rewind that is killed at any of its own: the client that is
    rewound is where the person wants it, in the last epoch; every other one is moved, once."""
    there, back = LogPosition("10.0.0.2", 3306, AT.postion), AT.at(EntryPosition("mysql-bin.000001", 4))
    for dies_at in range(10):
        nodes, clients = MemoryNodes(), (1001, 1002, 1003)
        for client in clients:
            Cursors(nodes, "shop").subscribe(client)
            Cursors(nodes, "shop").write(client, AT, AT.postion)
        moving = Cursors(Mortal(nodes, known, after=after), "shop")
        dies(lambda: moving.move(clients, there, "uuid"))  # noqa: B023 called at once
        planned = RewindPlan(back, (Move(1002, AT, None, moved=True),))
        mortal = Mortal(nodes, dies_at, after=after, error=ZeroDivisionError)
        if dead := dies(lambda: stopped(mortal).rewind(planned), ZeroDivisionError):  # noqa: B023
            stopped(nodes).rewind(planned)

        cursors = Cursors(nodes, "shop")
        assert nodes.read("/otter/canal/destinations/shop/sluice_move") is None
        assert [cursors.read(client) for client in clients] == [there, back, there]
        assert [cursors.epoch(client).number for client in (1001, 1003)] == [1, 1]
        assert [cursors.epoch(client).moved for client in (1001, 1003)] == [1, 1]
        epoch = cursors.epoch(1002)
        assert epoch.moved == epoch.number >= 2
        if not dead:
            break
    assert not dead


def stopped(nodes: Nodes) -> Destination:
    """A destination that a person has stopped."""
    instance = InstanceConfig.model_validate({"destination": "shop", "address": "127.0.0.1:9"})
    return Destination("shop", Configuration(instance), nodes)


@pytest.mark.integration
def test_a_plan_reports_and_changes_nothing(mysql8: MySqlServer) -> None:
    """A plan has the bytes read again or skipped, for one client or all. The cursor of another server cannot be
    compared, and a position of its epochs is refused."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        settings, cursors = source_settings(config(mysql8, shop)), Cursors(MemoryNodes(), "shop")
        end = EntryPosition(*mysql8.position())
        cursors.write(1001, LogPosition(mysql8.host, mysql8.port, end))
        cursors.write(1002, LogPosition("10.0.0.9", 3306, end))
        execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
        last = EntryPosition(*mysql8.position())

        (ahead,) = plan(settings, cursors, RewindTarget("latest", 1001)).moves
        assert ahead.to_dict()["skipped_bytes"] == last.position - end.position
        (stays,) = plan(settings, cursors, RewindTarget(end, 1001)).moves
        assert (stays.nbytes, stays.moved) == (0, False)
        back, foreign = plan(settings, cursors, RewindTarget("earliest")).moves
        assert back.to_dict()["again_bytes"] >= end.position - 4
        assert (foreign.moved, foreign.nbytes) == (True, None)
        (moved,) = plan(settings, cursors, RewindTarget("earliest", 1001, moved=True)).moves
        assert moved.moved
        assert (cursors.epoch(1001).number, cursors.read(1001)) == (0, LogPosition(mysql8.host, mysql8.port, end))

        planned = plan(settings, cursors, RewindTarget("latest"))
        assert carry_out(cursors, planned) == {1001: 1, 1002: 1}
        assert (cursors.epoch(1001).moved, cursors.epoch(1002).moved) == (0, 1)
        assert plan(settings, cursors, RewindTarget(end, 1001, of_epoch=0)).position.postion == end
        for elsewhere in (RewindTarget(end, 1002, of_epoch=0), RewindTarget(end, 1001, moved=True, of_epoch=1)):
            with pytest.raises(PositionError, match="another server was read"):
                plan(settings, cursors, elsewhere)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("after", "what"), [("Gtid", None), ("Query", "Table_map"), ("Table_map", "Write_rows"), ("Write_rows", "Xid")]
)
def test_a_place_within_a_transaction_is_refused(mysql8: MySqlServer, after: str, what: str | None) -> None:
    """The event at the place decides. Places inside an event, beyond the end and in no journal are refused too."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        start = EntryPosition(*mysql8.position())
        execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
        with mysql8.root() as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{start.journal_name}' FROM {start.position}")
            ends = {str(event[2]): int(event[4]) for event in reversed(cursor.fetchall())}
        settings, cursors = source_settings(config(mysql8, shop)), Cursors(MemoryNodes(), "shop")
        found = next(end for name, end in ends.items() if name.startswith(after) or (after == "Gtid" and "id" in name))
        place = EntryPosition(start.journal_name, found)
        if what is None:
            assert plan(settings, cursors, RewindTarget(start)).position.postion == start
        else:
            with pytest.raises(PositionError, match=what):
                plan(settings, cursors, RewindTarget(place))
        for wrong in (start.position + 3, 1 << 40):
            with pytest.raises(PositionError):
                plan(settings, cursors, RewindTarget(EntryPosition(start.journal_name, wrong)))
        with pytest.raises(PositionError):
            plan(settings, cursors, RewindTarget(EntryPosition("mysql-bin.000000", 4)))
        with pytest.raises(SessionError, match="client 7 is not subscribed"):
            plan(settings, cursors, RewindTarget(start, 7))


@pytest.mark.integration
def test_a_plan_goes_to_a_time(new_mysql: MySqlFactory) -> None:
    """To the start of the last transaction before it, or of the first one of its second; not beyond the end.

    A server of its own: sessions of other tests write rows of later times, and the search ends in front of them.
    """
    server = new_mysql("8.0.31")
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
        last = EntryPosition(*server.position())
        time.sleep(1.1)
        execute(server, shop, "INSERT INTO orders VALUES (2)")
        settings, cursors = source_settings(config(server, shop)), Cursors(MemoryNodes(), "shop")

        assert plan(settings, cursors, RewindTarget(int(time.time() * 1000))).position.postion == last
        for wrong in (1_000_000, int(time.time() * 1000) + 3_600_000):
            with pytest.raises(PositionError):
                plan(settings, cursors, RewindTarget(wrong))


def until_checkpoint(server: MySqlServer) -> None:
    """MariaDB writes it into a new file a moment later: it must not come between a transaction and its place."""
    until(lambda: server.position()[0] in _last_checkpoint(server))


def _last_checkpoint(server: MySqlServer) -> str:
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{server.position()[0]}'")
        found = [str(event[5]) for event in cursor.fetchall() if event[2] == "Binlog_checkpoint"]
    return found[-1] if found else ""


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql9", "mariadb"])
def test_a_plan_goes_to_what_a_gtid_set_lacks(name: str, request: pytest.FixtureRequest) -> None:
    """In a later file too, and to the end if nothing is missing. An unknown set is refused."""
    server: MySqlServer = request.getfixturevalue(name)
    places: list[tuple[str, EntryPosition]] = []
    with server.database() as shop:
        execute(server, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        for number in range(5):
            execute(server, shop, f"INSERT INTO orders VALUES ({number})")
            places.append((executed_gtids(server), EntryPosition(*server.position())))
            if number in (1, 2):
                server.execute("FLUSH BINARY LOGS")
                if name == "mariadb":
                    until_checkpoint(server)
        settings, cursors = source_settings(config(server, shop)), Cursors(MemoryNodes(), "shop")
        journals = [place.journal_name for _, place in places]
        assert len(set(journals)) == 3

        for at, (gtids, place) in enumerate(places):
            found = plan(settings, cursors, RewindTarget(ByGtid(gtids))).position.postion
            assert isinstance(found.gtid, Gtids)
            if at + 1 < len(places) and journals[at + 1] == place.journal_name:
                assert (found.journal_name, found.position) == (place.journal_name, place.position)
            else:  # the first of the next file, or the end of all
                assert found.journal_name == journals[min(at + 1, 4)]
                assert found > place or at == 4
        with server.root() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            end = cursor.fetchall()[-1]
        assert found.journal_name == end[0]
        assert place.position <= found.position <= int(end[1])  # MariaDB adds a checkpoint when it likes
        unknown = "0-1-999999999" if name == "mariadb" else f"{uuid.uuid4()}:1-5"
        for wrong, told in ((unknown, "never executed"), ("", "empty"), ("no:set", "not a GTID")):
            with pytest.raises(PositionError, match=told):
                plan(settings, cursors, RewindTarget(ByGtid(wrong)))


@pytest.mark.integration
def test_a_stopped_instance_writes_no_cursor(mysql8: MySqlServer) -> None:
    """A late ack cannot undo a cursor set by hand."""
    nodes: Any = MemoryNodes()
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        with running(config(mysql8, shop), nodes) as capture:
            start = Cursors(nodes, "shop").read(1001)
            execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
            found = claim(capture)
            capture.stop()
            with pytest.raises(RangeGone):
                capture.service.ack(1001, found.batch_id, "run-1")
        assert Cursors(nodes, "shop").read(1001) == start


@pytest.mark.integration
def test_a_destination_stopped_by_hand_stays_stopped_over_a_reset(mysql8: MySqlServer, tmp_path: Path) -> None:
    """A stopped destination stays stopped; a running one is stopped for the reset and starts again at the new place."""
    with mysql8.database() as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        start = EntryPosition(*mysql8.position())
        (tmp_path / "shop").mkdir()
        (tmp_path / "canal.properties").write_text("")
        (tmp_path / "shop" / "instance.properties").write_text(
            f"canal.instance.master.address={mysql8.host}:{mysql8.port}\ncanal.instance.dbUsername={mysql8.user}\n"
            f"canal.instance.dbPassword={mysql8.password}\ncanal.instance.filter.regex={shop}\\\\..*\n"
        )
        server = CanalServer(load_service(tmp_path, {})[0], tmp_path)
        server.start()
        try:
            wait_running(server)
            execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
            server.stop_destination("shop")
            assert server.reset_destination("shop", RewindTarget(start, 1001), dry_run=False).done
            assert server.destination("shop").status().note == "stopped by an operator"
            server.start_destination("shop")
            wait_running(server)
            found = server.destination("shop").service().claim(1001, 10, 60, "run-1", 60)
            assert (found.rows, found.epoch, found.start) == (1, 1, start)

            server.reset_destination("shop", RewindTarget(start), dry_run=False)
            wait_running(server)
            with pytest.raises(SessionError):
                server.destination("shop").service().ack(1001, found.batch_id, "run-1")
            assert server.destination("shop").service().client(1001).epoch == 2
        finally:
            server.stop()


def wait_running(server: CanalServer) -> None:
    deadline = time.monotonic() + 60
    while server.destination("shop").status().state != "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
