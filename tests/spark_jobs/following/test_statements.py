"""Statements of tables that land first: the log is merged whole, then the statement is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.sql import quote
from spark_jobs.landing.modes import Mode
from spark_jobs.landing.parked import Parked
from tests.support.landed import LandedShop, opened_landed

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@pytest.mark.in_turn
@pytest.mark.full
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


@pytest.mark.in_turn
@pytest.mark.full
def test_a_table_goes_from_mode_to_mode(shop: LandedShop) -> None:
    """Merged, landed, merged while its log is behind, landed again: nothing is lost or twice."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.run(Mode.MERGE)
    shop.drain()
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "INSERT INTO t VALUES (3, 'b')")
    shop.land()
    shop.execute("UPDATE t SET v = 'c' WHERE id = 2")
    shop.run(Mode.MERGE)
    assert shop.drain() == []
    assert shop.differences("t") == {"t": (0, 0, 0)}
    shop.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 'd')")
    shop.land()
    assert shop.now("t") == shop.source("t")
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.full
def test_a_claim_that_was_landed_and_merged_comes_again_without_the_log(shop: LandedShop) -> None:
    """Its rows are in the table, and its checks pass."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))")
    shop.land()
    shop.execute("INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    claim = shop.claim()
    shop.run()
    shop.lake.apply(claim, "test", 2, ())
    shop.merger().whole(shop.named("t"))
    shop.connector.rollback(owner="test", reason="its run died")
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1")
    shop.run(Mode.MERGE)
    assert shop.drain() == []
    assert shop.connector.client_status().stopped == ()
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_a_log_that_was_there_alone_is_merged_with_its_truncations(shop: LandedShop) -> None:
    """The statements of that time were not followed; rows before the last TRUNCATE do not count."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.run(Mode.APPEND)
    assert shop.drain() == []
    shop.execute("TRUNCATE TABLE t", "INSERT INTO t VALUES (2, 'b'), (3, 'b')")
    shop.run(Mode.APPEND)
    assert shop.drain() == []
    shop.execute("UPDATE t SET v = 'c' WHERE id = 3")
    shop.land()
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_tables_that_are_renamed_and_changed_in_one_claim(shop: LandedShop) -> None:
    """To a name that had a log, in a pair, in a chain, without a key: tables and histories are right, also where the
    table is lost and its log has what came after the RENAME alone: it is not made from that."""
    tables, now = ("a", "b", "c", "d"), ("b", "c3", "d2")
    shop.execute(*(f"CREATE TABLE {one} (id INT PRIMARY KEY, v VARCHAR(40))" for one in tables))
    shop.execute(*(f"INSERT INTO {one} VALUES (1, '{one}'), (2, '{one}'), (3, '{one}')" for one in tables))
    shop.execute("CREATE TABLE bare (v INT)", "INSERT INTO bare VALUES (1), (1), (2)")
    assert shop.land() == []
    shop.keep(*tables)
    shop.execute(
        "DROP TABLE b", "RENAME TABLE a TO b",
        "UPDATE b SET v = 'new' WHERE id = 1", "DELETE FROM b WHERE id = 2", "INSERT INTO b VALUES (4, 'x')",
        "RENAME TABLE c TO c2, d TO d2", "UPDATE c2 SET v = 'n' WHERE id = 1", "DELETE FROM d2 WHERE id = 1",
        "RENAME TABLE c2 TO c3", "DELETE FROM c3 WHERE id = 2", "UPDATE c3 SET v = 'last'",
        "RENAME TABLE bare TO bare2", "DELETE FROM bare2 LIMIT 1", "INSERT INTO bare2 VALUES (3)",
    )  # fmt: skip
    assert shop.land() == []
    shop.keep(*now)
    shop.follow()
    for one in (*now, "bare2"):
        assert shop.merged(one) == shop.source(one), one
    for one in now:
        assert shop.current(one) == shop.source(one), one
    rmtree(shop.lake.lake.path(shop.database, "b"))
    shop.execute("INSERT INTO b VALUES (77, 'later')")
    assert shop.land() == []
    assert [one.table for one in shop.follow() if isinstance(one, Parked)] == [shop.named("b")]
