"""A lake after a rewind: read again from MySQL, merged by Spark, compared with the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_core.contract.reached import How
from orchestration.commands.service import call
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.fence import Fence
from tests.support.shop import Shop, opened_shop, reading_source, until_running

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        yield shop


def place(shop: Shop) -> dict[str, Any]:
    journal, offset = shop.mysql.position()
    return {"journalName": journal, "position": offset}


def reset(shop: Shop, to: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Rewinds and waits until the destination runs again; what comes next belongs to a new run."""
    body = {"to": to, "client_id": 1001, "dry_run": False} | fields
    told: dict[str, Any] = call(shop.connector.http_url, "", "POST", "/v1/destinations/shop/reset", body)
    until_running(shop.connector)
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    return told


def test_rows_that_come_again_are_there_once(shop: Shop) -> None:
    """With and without a key, in batches that end elsewhere. The counts of `complete` tables hold again beyond them."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (x INT, y VARCHAR(9))")
    shop.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO b VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    shop.drain()
    middle = place(shop)
    shop.execute(
        "INSERT INTO a VALUES (4, 4)",
        "UPDATE a SET v = 20 WHERE id = 2",
        "DELETE FROM a WHERE id = 3",
        "UPDATE a SET id = 10 WHERE id = 1",
        "INSERT INTO b VALUES (1, 'x'), (3, 'z')",
        "DELETE FROM b WHERE x = 2",
    )
    shop.drain()
    shop.execute("UPDATE a SET v = 40 WHERE id = 4", "INSERT INTO b VALUES (9, 'new')")

    told = reset(shop, middle)
    assert told["clients"][0]["again_bytes"] > 0
    client = shop.connector.client_status()
    assert (client.epoch, client.reached.how, client.cursor.position) == (1, How.RESET, middle["position"])
    shop.lake.check_cursor(client)
    assert shop.drain(batch_size=2) == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}

    reset(shop, middle)
    shop.execute("DELETE FROM a WHERE id = 2", "INSERT INTO a VALUES (5, 5)", "INSERT INTO b VALUES (9, 'new')")
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}
    shop.execute("INSERT INTO a VALUES (6, 6)", "DELETE FROM b WHERE x = 9 LIMIT 1")
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}


@pytest.mark.in_turn
def test_a_rewind_across_changed_columns(shop: Shop) -> None:
    """Rows of earlier definitions come again: on the same server, where what the table followed is left out, and as
    after a failover by time, where they go back in time and the statements follow."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT, w INT)", "CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    shop.execute("INSERT INTO a VALUES (1, 1, 1), (2, 2, 2)", "INSERT INTO b VALUES (1, 1), (2, 2), (3, 3)")
    shop.drain()
    start = place(shop)
    shop.execute(
        "UPDATE a SET v = 20 WHERE id = 2",
        "ALTER TABLE a ADD c INT NOT NULL DEFAULT 7",
        "INSERT INTO a VALUES (4, 4, 4, 8)",
        "ALTER TABLE a DROP COLUMN w",
        "UPDATE a SET c = 9 WHERE id = 1",
        "UPDATE b SET v = 20 WHERE id = 2",
        "DELETE FROM b WHERE id = 3",
        "INSERT INTO b VALUES (3, 30)",
        "ALTER TABLE b ADD c INT NOT NULL DEFAULT 7",
        "ALTER TABLE b ALTER c SET DEFAULT 5",
        "UPDATE b SET c = 9 WHERE id = 1",
        "INSERT INTO b (id) VALUES (4)",
    )
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}

    reset(shop, start)
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}
    reset(shop, start, moved=True)
    assert f"{shop.database}.b" not in shop.drain()
    assert shop.differences("b") == {"b": (0, 0, 0)}


def test_a_claim_that_comes_twice_after_a_rewind_is_applied_once(shop: Shop) -> None:
    """A batch that was applied and not acked comes again with other ends, and is judged by the first commit."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (x INT)")
    start = place(shop)
    shop.execute("INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1)")
    shop.drain()
    shop.execute("INSERT INTO a VALUES (2, 2)", "INSERT INTO b VALUES (2)", "INSERT INTO a VALUES (3, 3)")
    reset(shop, start)
    claim = shop.claim(owner="killed")
    shop.lake.apply(claim, "killed", 2, [])
    shop.connector.rollback(claim, reason="killed")
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    assert shop.drain(batch_size=1) == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}


def test_a_table_without_a_key_stops_where_its_rows_are_unknown(shop: Shop) -> None:
    """After a skipped gap or a change of server a table without a key stops; a table with a key is repaired."""
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (x INT)", "CREATE TABLE c (x INT)")
    start = place(shop)
    shop.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    shop.drain()
    shop.execute("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)")
    assert reset(shop, "latest")["clients"][0]["skipped_bytes"] > 0
    shop.execute("INSERT INTO a VALUES (3)", "INSERT INTO b VALUES (3)")
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (1, 0, 0), "b": (1, 0, 0)}

    reset(shop, start)
    assert shop.drain() == [f"{shop.database}.b"]
    assert shop.differences("a") == {"a": (0, 0, 0)}

    shop.execute("INSERT INTO c VALUES (1)")
    assert shop.drain() == []
    reset(shop, start, moved=True)
    assert shop.drain() == [f"{shop.database}.c"]
    assert {stop.table for stop in shop.connector.client_status().stopped} == {
        f"{shop.database}.b",
        f"{shop.database}.c",
    }
    assert shop.differences("a") == {"a": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.parametrize("image", ["MINIMAL", pytest.param("NOBLOB", marks=pytest.mark.full)])
def test_an_update_whose_row_was_deleted_later_stops_its_table_unless_one_claim_has_both(
    shop: Shop, image: str
) -> None:
    """The row that held the missing columns is gone. Other tables go on, and one larger claim repairs the table."""
    shop.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT, t TEXT)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')",
    )
    shop.drain()
    middle = place(shop)
    shop.execute(
        f"SET SESSION binlog_row_image = {image}",
        "UPDATE a SET v = 20 WHERE id = 2",
        "UPDATE a SET v = 10 WHERE id = 1",
        "UPDATE a SET id = 4 WHERE id = 1",
        "INSERT INTO b VALUES (1)",
        "DELETE FROM a WHERE id = 4",
        "UPDATE a SET v = 30 WHERE id = 3",
    )
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}

    reset(shop, middle)
    assert shop.drain(batch_size=1) == [f"{shop.database}.a"]
    assert shop.differences("b") == {"b": (0, 0, 0)}

    reset(shop, middle)
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}


@pytest.mark.in_turn
def test_a_row_that_changed_its_key_comes_again_with_its_own_values(shop: Shop) -> None:
    """The lake has another row by its earlier key by then, or none, so a run copies the table; one that cannot, stops
    it. Rows that stay by their keys, or whose move is gone again within the claim, need no copy."""
    create = "CREATE TABLE {} (id INT PRIMARY KEY, a INT, b INT)"
    tables = ("swapped", "followed", "moved", "stays")
    shop.execute(*(create.replace("{}", table) for table in tables))
    shop.execute(*(f"INSERT INTO {table} VALUES (1, 10, 100), (2, 20, 200)" for table in tables))
    shop.drain()
    middle = place(shop)
    shop.execute(
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE swapped SET id = 9 WHERE id = 1",
        "UPDATE swapped SET id = 1 WHERE id = 2",
        "UPDATE swapped SET id = 2 WHERE id = 9",
        "UPDATE followed SET id = 3 WHERE id = 1",
        "INSERT INTO followed VALUES (1, 11, 111)",
        "UPDATE moved SET id = 3 WHERE id = 1",
        "UPDATE stays SET id = 3 WHERE id = 1",
        "UPDATE stays SET id = 1 WHERE id = 3",
        "UPDATE stays SET a = 21 WHERE id = 2",
        "DELETE FROM stays WHERE id = 2",
        "INSERT INTO stays (id, b) VALUES (2, 222)",
    )
    right = dict.fromkeys(tables, (0, 0, 0))
    assert shop.drain() == []
    assert shop.differences(*tables) == right

    with reading_source(shop) as reading:
        reset(reading, middle)
        assert reading.drain() == []
        assert reading.differences(*tables) == right
    found = {table: shop.lake.lake.state(shop.lake.lake.path(shop.database, table), "") for table in tables}
    copied = {table for table, state in found.items() if state is not None and state.copied is not None}
    assert copied == {"swapped", "followed", "moved"}
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))

    shop.execute("SET SESSION binlog_row_image = MINIMAL", "UPDATE moved SET id = 4 WHERE id = 3")
    assert shop.drain() == []
    middle = place(shop)
    shop.execute("SET SESSION binlog_row_image = MINIMAL", "UPDATE moved SET id = 5 WHERE id = 4")
    assert shop.drain() == []
    assert shop.differences(*tables) == right
    reset(shop, middle)
    assert shop.drain() == [f"{shop.database}.moved"]
    (stop,) = shop.connector.client_status().stopped
    assert "an update that changed a key leaves columns out" in stop.reason
    assert (stop.copy_needed, "sluice copy" in stop.hint) == (True, True)
    assert shop.differences("moved") == {"moved": (0, 0, 0)}
