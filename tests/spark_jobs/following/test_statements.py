"""Statements of tables that land first: the log is merged whole, then the statement is followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.sql import quote
from tests.support.landed import LandedShop, opened_landed

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


STATEMENTS = {
    "ADD": ("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7", "INSERT INTO t VALUES (20, 'n', 1)"),
    "DROP COLUMN": ("ALTER TABLE t DROP COLUMN v", "INSERT INTO t VALUES (20)"),
    "RENAME COLUMN": ("ALTER TABLE t RENAME COLUMN v TO w", "INSERT INTO t VALUES (20, 'n')"),
    "TYPE": ("ALTER TABLE t MODIFY v VARCHAR(200)", "UPDATE t SET v = repeat('x', 150) WHERE id = 2"),
    "TRUNCATE": ("TRUNCATE TABLE t", "INSERT INTO t VALUES (20, 'n'), (2, 'again')"),
    "DROP": ("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), more INT)",
             "INSERT INTO t VALUES (2, 'b', 3)"),
    "RENAME": ("RENAME TABLE t TO u", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))",
               "INSERT INTO t VALUES (2, 'c')"),
}  # fmt: skip


def test_statements_come_behind_the_log(shop: LandedShop) -> None:
    """Rows before each statement were not merged when it came; rows behind it land and are merged."""
    for statements in STATEMENTS.values():
        shop.execute("DROP TABLE IF EXISTS t, u", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))")
        shop.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        shop.land()
        shop.execute("UPDATE t SET id = 9, v = 'd' WHERE id = 3", "DELETE FROM t WHERE id = 1")
        shop.execute(*statements)
        assert shop.land() == [], statements
        tables = ["t", "u"] if "RENAME TABLE" in statements[0] else ["t"]
        for table in tables:
            assert table == "u" or shop.now(table) == shop.source(table), statements  # `u` has no log yet
            shop.merger().whole(shop.named(table))
        assert shop.differences(*tables) == dict.fromkeys(tables, (0, 0, 0)), statements


def test_a_table_whose_log_cannot_be_merged_stops_at_the_statement(shop: LandedShop) -> None:
    """With the reason of the merge; the other tables follow."""
    for table in ("bad", "good"):
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES (1, 1)")
    shop.land()
    shop.follow()
    path = shop.lake.lake.path(shop.database, "bad")
    with shop.lake.sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.{quote(path)} ADD CONSTRAINT small CHECK (n < 10)").collect()
    for table in ("bad", "good"):
        shop.execute(f"INSERT INTO {table} VALUES (2, 20)", f"ALTER TABLE {table} ADD COLUMN m INT")
    assert shop.land() == [shop.named("bad")]
    (stop,) = shop.connector.client_status().stopped
    assert "small" in stop.reason
    assert "sluice copy" in stop.hint
    shop.merger().whole(shop.named("good"))
    assert shop.differences("good") == {"good": (0, 0, 0)}


def test_a_table_goes_from_mode_to_mode(shop: LandedShop) -> None:
    """Merged, landed, merged while its log is behind, landed again: nothing is lost or twice."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.drain()
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "INSERT INTO t VALUES (3, 'b')")
    shop.land()
    shop.execute("UPDATE t SET v = 'c' WHERE id = 2")
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    assert shop.drain() == []
    assert shop.differences("t") == {"t": (0, 0, 0)}
    shop.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 'd')")
    shop.land()
    assert shop.now("t") == shop.source("t")
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}


def test_a_claim_that_was_landed_and_merged_comes_again_without_the_log(shop: LandedShop) -> None:
    """Its rows are in the table, and its checks pass."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))")
    shop.land()
    shop.execute("INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    claim = shop.claim()
    shop.landed(claim)
    shop.merger().whole(shop.named("t"))
    shop.connector.rollback(owner="test")
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1")
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    assert shop.drain() == []
    assert shop.connector.client_status().stopped == ()
    assert shop.differences("t") == {"t": (0, 0, 0)}
