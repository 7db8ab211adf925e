"""A stopped table's stop is lifted only when the table misses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.destination.capture import Capture
from cdc_core.errors import SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Change, MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, claim, config, execute, running


def place(position: int) -> EntryPosition:
    return EntryPosition("bin.000001", position)


@pytest.mark.integration
def test_a_stop_is_not_lifted_after_changes_of_the_table_were_acked(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Changes that were acked past the stop are remembered over a restart; only a copy at or after them lifts it."""
    with mysql8.database() as shop:
        table, nodes = f"{shop}.orders", FileNodes(tmp_path / "meta.json")
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)", "CREATE TABLE users (id INT PRIMARY KEY)")
        with running(config(mysql8, shop), nodes) as capture:
            execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
            first = claim(capture)
            stop(capture, table, first.start)
            with pytest.raises(SessionError, match=f"batch {first.batch_id} has rows of {table}"):
                capture.service.lift_stop(CLIENT, table, None)
            capture.service.lift_stop(CLIENT, table, None, first.owner)  # who gives the claim back
            stop(capture, table, first.start)
            capture.service.rollback(CLIENT, None, None, "test")
            capture.service.lift_stop(CLIENT, table, None)  # nothing passed
            assert claim(capture).stopped == ()
            stop(capture, table, first.start)
            capture.service.report_quarantined(CLIENT, {table: 2}, whole=True)
            blocked = [StoppedTable(name, "2 rows fail", "", None) for name in (table, "a.b")]
            capture.service.report_blocked(CLIENT, blocked)
            assert (capture.metrics().stopped_tables, capture.metrics().blocked_tables) == (2, 1)
            capture.service.rollback(CLIENT, None, None, "test")
            passed = ack(capture)
            assert passed.stopped == (table,)
            execute(mysql8, shop, "INSERT INTO users VALUES (1)")
            assert ack(capture).table_names == (f"{shop}.users",)

        with running(config(mysql8, shop), nodes) as capture:
            (stopped,) = capture.service.client(CLIENT).stopped
            assert stopped.passed == passed.end
            assert capture.service.client(CLIENT).quarantined == {table: 2}
            (waiting,) = capture.service.client(CLIENT).blocked  # the other one is stopped
            assert waiting.table == "a.b"
            for copied in (None, passed.start):
                with pytest.raises(SessionError, match=f"up to {passed.end} were acked .* sluice copy shop {table}"):
                    capture.service.lift_stop(CLIENT, table, copied)
            capture.service.lift_stop(CLIENT, table, passed.end)
            assert capture.service.client(CLIENT).stopped == ()


def test_a_dropped_database_passes_its_stopped_tables(mysql8: MySqlServer) -> None:
    """The statement names none of them. What passed stays when such a table is stopped again."""
    with mysql8.database("stopped") as shop:
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        with running(config(mysql8, shop), MemoryNodes()) as capture:
            execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
            stop(capture, f"{shop}.orders", ack(capture).end)
            mysql8.execute(f"DROP DATABASE {shop}", f"CREATE DATABASE {shop}")
            dropped = ack(capture)
            stop(capture, f"{shop}.orders", dropped.start)
            (stopped,) = capture.service.client(CLIENT).stopped
            assert stopped.passed == dropped.end
            with pytest.raises(SessionError, match="were acked"):
                capture.service.lift_stop(CLIENT, f"{shop}.orders", None)


def stop(capture: Capture, table: str, position: EntryPosition) -> None:
    capture.service.stop_table(CLIENT, StoppedTable(table, "column changed", "Rebuild it.", position))


def ack(capture: Capture):  # type: ignore[no-untyped-def]
    found = claim(capture)
    capture.service.ack(CLIENT, found.batch_id, found.owner)
    return found


def test_what_comes_again_after_a_reset_has_not_passed() -> None:
    """A reset to the stop or before it takes back what passed; one after it does not, nor does another server."""
    cursors = Cursors(MemoryNodes(), "shop")
    cursors.subscribe(CLIENT)
    cursors.stopped.stop(CLIENT, StoppedTable("shop.orders", "r", "h", place(100), place(900)))
    cursors.stopped.stop(CLIENT, StoppedTable("shop.wrong", "r", "h", place(100), place(100), copy_needed=True))
    for moved, to, passed in ((False, 500, 500), (False, 100, None), (False, 700, 700), (True, 50, 50)):
        cursors.rewind(CLIENT, LogPosition("127.0.0.1", 3306, place(to)), moved=moved)
        orders, wrong = cursors.stopped.of(CLIENT)
        assert orders.passed == (place(passed) if passed else None)
        assert wrong.passed == place(to)


def test_a_block_is_told_from_an_error_after_a_restart() -> None:
    """A stop of an older version, which has no kind, is one by an error."""
    nodes = MemoryNodes()
    blocked = StoppedTable("shop.orders", "2 rows fail", "Accept it.", place(100), kind="blocked")
    Cursors(nodes, "shop").stopped.stop(CLIENT, blocked)
    assert Cursors(nodes, "shop").stopped.of(CLIENT) == [blocked]
    fields = blocked.to_dict()
    del fields["kind"]
    assert not StoppedTable.from_dict(fields).is_blocked


def test_a_stop_of_an_older_version_counts_as_passed() -> None:
    """Its node does not say whether changes passed: whatever was acked may have been some."""
    nodes = MemoryNodes()
    cursors = Cursors(nodes, "shop")
    fields = StoppedTable("shop.orders", "r", "h", place(100)).to_dict()
    old = {name: value for name, value in fields.items() if name not in ("passed", "copy_needed")}
    path = "/otter/canal/destinations/shop/1001/stopped/shop.orders"
    nodes.write({path: Change(json.dumps(old).encode(), None)})
    assert cursors.stopped.of(CLIENT, place(900))[0].passed == place(900)
    assert cursors.stopped.of(CLIENT)[0].passed is None


@pytest.mark.integration
def test_an_ack_lifts_the_stop_of_a_table_that_a_statement_mended(mysql8: MySqlServer, tmp_path: Path) -> None:
    """In one write with the cursor. Not before the ack, and not while another claim leaves the table's rows out."""
    with mysql8.database() as shop:
        table, nodes = f"{shop}.orders", FileNodes(tmp_path / "meta.json")
        execute(mysql8, shop, "CREATE TABLE orders (id INT PRIMARY KEY)")
        with running(config(mysql8, shop), nodes) as capture:
            execute(mysql8, shop, "INSERT INTO orders VALUES (1)")
            stop(capture, table, ack(capture).end)
            execute(mysql8, shop, "INSERT INTO orders VALUES (2)")
            passed = ack(capture)
            execute(mysql8, shop, "TRUNCATE TABLE orders", "INSERT INTO orders VALUES (3)")
            mending = claim(capture)
            execute(mysql8, shop, "ALTER TABLE orders ADD n INT", "INSERT INTO orders VALUES (4, 4)")
            later = claim(capture)
            assert later.stopped == mending.stopped == (table,)
            with pytest.raises(SessionError, match=f"batch {later.batch_id} has rows of {table}"):
                capture.service.ack(CLIENT, mending.batch_id, mending.owner, [table])
            assert capture.service.client(CLIENT).stopped[0].passed == passed.end
            capture.service.rollback(CLIENT, later.batch_id, later.owner, "test")
            capture.service.ack(CLIENT, mending.batch_id, mending.owner, [table, "shop.others"])
            assert capture.service.client(CLIENT).stopped == ()
            assert claim(capture).stopped == ()
        with running(config(mysql8, shop), nodes) as capture:
            assert capture.service.client(CLIENT).stopped == ()
