"""A wrong account, position, cursor or binlog format is reported, waited for, and left behind once it is corrected."""

from __future__ import annotations

import pytest

from cdc_core.position import EntryPosition, LogPosition
from tests.bad_input.world import CURSOR, MakeWorld, World, until
from tests.support.servers import purge

pytestmark = pytest.mark.integration

AWAY = {"canal.instance.master.address": "127.0.0.1:9"}


def test_a_wrong_password(make_world: MakeWorld) -> None:
    """The error names account and remedy, never a password; the right password in the file heals it."""
    world = make_world({"canal.instance.dbPassword": "not-this-one"}, wait=False)
    world.sql("INSERT INTO orders VALUES (1, 'waits')")

    world.reports("SourceError", "the server refuses the account", world.mysql.user, "canal.instance.dbUsername")

    assert not world.run().success
    assert "not-this-one" not in world.log.getvalue() + world.page() + str(world.status())
    world.other_goes_on()
    assert world.cursor() is None
    world.configure(password=world.mysql.password)
    world.healed()
    assert world.drain() == [(1, "waits")]
    assert world.mysql.password not in world.log.getvalue() + world.page() + str(world.status())


def test_a_purged_position(make_world: MakeWorld) -> None:
    """When the journal of the cursor is gone, nothing silently starts over. Without the cursor it starts where it is
    configured."""
    world = make_world(AWAY, wait=False)
    gone, offset = world.mysql.position()
    world.zookeeper.ensure_path(CURSOR.format("shop"))
    world.zookeeper.set(CURSOR.format("shop"), _cursor(world, gone, offset))
    world.mysql.execute("FLUSH BINARY LOGS")
    left, start = world.mysql.position()
    until(lambda: world.status("other")["position"]["journalName"] == left, world.status)
    purge(world.mysql, left)
    before = world.cursor()

    world.configure(address=f"{world.mysql.host}:{world.mysql.port}")
    world.reports("PositionPurged", f"the journal {gone} was purged", f"{gone}:{offset}", "`sluice reset shop --anew")

    world.other_goes_on()
    assert world.cursor() == before
    world.sql("INSERT INTO orders VALUES (1, 'after')")
    world.zookeeper.delete(CURSOR.format("shop"))
    world.configure(journal=left, position=start)
    world.healed()
    assert world.drain() == [(1, "after")]


def test_a_node_that_is_no_cursor(make_world: MakeWorld) -> None:
    """A node that is not a cursor is neither interpreted nor overwritten."""
    world = make_world(AWAY, wait=False)
    journal, offset = world.mysql.position()
    world.zookeeper.ensure_path(CURSOR.format("shop"))
    world.zookeeper.set(CURSOR.format("shop"), b'{"position": "here"}')

    world.configure(address=f"{world.mysql.host}:{world.mysql.port}")
    world.reports("CursorError", "not a cursor in Canal's JSON", CURSOR.format("shop"), "Correct or remove the node")

    world.other_goes_on()
    assert world.cursor() == b'{"position": "here"}'
    world.sql("INSERT INTO orders VALUES (1, 'after')")
    world.zookeeper.set(CURSOR.format("shop"), _cursor(world, journal, offset))
    world.healed()
    assert world.drain() == [(1, "after")]


def test_statement_format_changes(world: World) -> None:
    """A session that overrides the format stops the destination; with its table filtered out, the destination goes on
    after it."""
    world.sql("CREATE TABLE audit (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1, 'before')")
    world.hold()
    before = world.cursor()
    journal, _ = world.mysql.position()
    world.sql("SET SESSION binlog_format = STATEMENT", "INSERT INTO audit VALUES (7)")

    world.reports("DecodeError", "statement-format change: 'INSERT INTO audit", f"{journal}:", "binlog_format=ROW")

    world.other_goes_on()
    assert world.cursor() == before
    world.sql("INSERT INTO orders VALUES (2, 'after')")
    world.configure(black=rf"{world.databases['shop']}\\.audit")
    world.healed()
    assert world.drain(rows=2) == [(1, "before"), (2, "after")]


def _cursor(world: World, journal: str, offset: int) -> bytes:
    return LogPosition(world.mysql.host, world.mysql.port, EntryPosition(journal, offset)).to_json().encode()
