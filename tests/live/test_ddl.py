"""DDL on a real server, followed by the lake through the real service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.source import Source
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration


_BEFORE = (
    "CREATE TABLE orders (id INT PRIMARY KEY, v INT, s VARCHAR(20) COMMENT 'a text', d DATETIME(3))",
    "INSERT INTO orders VALUES (1, 10, 'one', '2024-01-01 10:00:00.123'), (2, NULL, 'two', NULL)",
    "CREATE TABLE emptied (id INT PRIMARY KEY)",
    "INSERT INTO emptied VALUES (1), (2)",
    "CREATE TABLE anew (id INT PRIMARY KEY, v INT)",
    "INSERT INTO anew VALUES (1, 1), (2, 2)",
    "CREATE TABLE left_side (id INT PRIMARY KEY, v VARCHAR(9))",
    "CREATE TABLE right_side (id INT PRIMARY KEY, v VARCHAR(9))",
    "INSERT INTO left_side VALUES (1, 'left')",
    "INSERT INTO right_side VALUES (1, 'right'), (2, 'right')",
    "CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (100))",
    "INSERT INTO parts VALUES (1, 1), (20, 20)",
)
_CHANGES = (
    "TRUNCATE TABLE emptied",
    "INSERT INTO emptied VALUES (2), (3)",
    "DROP TABLE anew",
    "CREATE TABLE anew (id INT PRIMARY KEY, w VARCHAR(5))",
    "INSERT INTO anew VALUES (2, 'new')",
    "RENAME TABLE left_side TO side, right_side TO left_side, side TO right_side",
    "INSERT INTO left_side VALUES (3, 'later')",
    "ALTER TABLE orders ADD c INT NOT NULL DEFAULT 7 AFTER id, MODIFY v BIGINT COMMENT 'wider'",
    "ALTER TABLE orders ALTER c SET DEFAULT 9",
    "INSERT INTO orders (id, v, s) VALUES (3, 1 << 40, 'three')",
    "ALTER TABLE orders RENAME COLUMN s TO old_s, ADD s VARCHAR(3)",
    "ALTER TABLE orders DROP COLUMN v, RENAME TO orders2",
    "INSERT INTO orders2 (id, old_s, s) VALUES (4, 'four', 'new')",
    "CREATE TABLE filled AS SELECT id, old_s FROM orders2",
    "CREATE TABLE alike LIKE orders2",
    "INSERT INTO alike SELECT * FROM orders2 WHERE id < 3",
)
_COPIED = (
    "ALTER TABLE orders2 ADD g INT AS (c * 2) STORED, MODIFY d DATETIME",
    "ALTER TABLE parts TRUNCATE PARTITION p0",
    "INSERT INTO parts VALUES (30, 30)",
)
_TABLES = ("emptied", "anew", "left_side", "right_side", "orders2", "alike", "filled")


@contextmanager
def _opened(mysql: MySqlServer, spark_remote: str, path: Path) -> Iterator[Shop]:
    """A shop whose runs may copy tables from the source."""
    with opened_shop(mysql, spark_remote, path) as shop:
        source = Source(mysql.host, mysql.port, mysql.user, mysql.password)
        yield replace(shop, lake=replace(shop.lake, source=source))


def test_a_small_table_that_needs_a_copy_gets_it_in_the_run(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """The server computed the old rows' values: the table does not stop, and is as the source has it."""
    with _opened(mysql8, spark_remote, tmp_path) as shop:
        shop.execute("CREATE TABLE o (id INT PRIMARY KEY, v INT)", "INSERT INTO o VALUES (1, 10)")
        assert shop.drain() == []
        shop.execute("ALTER TABLE o ADD g INT AS (v * 2) STORED", "INSERT INTO o (id, v) VALUES (2, 5)")
        assert shop.drain() == []
        assert shop.differences("o") == {"o": (0, 0, 0)}


@pytest.mark.full
def test_a_statement_ends_the_stop_of_its_table_with_the_ack(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """A run dies between the lake's commit and the ack: the stop is still there, and the next run ends it."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("t", "d", "r")))
        shop.execute(*(f"INSERT INTO {name} VALUES (1, 1)" for name in ("t", "d", "r")))
        assert shop.drain() == []
        shop.execute(*(f"ALTER TABLE {name} ADD g INT AS (v * 2) STORED" for name in ("t", "d", "r")))
        names = {name: f"{shop.database}.{name}" for name in ("t", "d", "r", "s")}
        assert sorted(shop.drain()) == sorted([names["t"], names["d"], names["r"]])
        shop.execute(*(f"INSERT INTO {name} (id, v) VALUES (2, 2)" for name in ("t", "d", "r")))
        assert shop.drain() == []
        shop.execute("TRUNCATE t", "INSERT INTO t (id, v) VALUES (7, 7)", "DROP TABLE d", "RENAME TABLE r TO s")
        shop.execute("CREATE TABLE d (k VARCHAR(9) PRIMARY KEY)", "INSERT INTO d VALUES ('new')")
        shop.read()
        with suppress(ZeroDivisionError), shop.connector.claim(1000, owner="dies", timeout_seconds=60) as claim:
            assert claim is not None
            batch = shop.lake.apply(claim, "dies", 2, claim.stopped)
            assert batch.mended
            raise ZeroDivisionError
        stopped = {one.table for one in shop.connector.client_status().stopped}
        assert stopped == {names["t"], names["d"], names["r"]}
        assert shop.drain() == [names["s"]]
        (left,) = shop.connector.client_status().stopped
        assert left.table == names["s"]
        assert names["r"] in left.reason
        assert shop.differences("t", "d") == {"t": (0, 0, 0), "d": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_the_lake_follows_every_kind_of_statement(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """No table stops, and each is as the source has it; what the lake cannot compute is copied in the same run."""
    with _opened(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(*_BEFORE)
        assert shop.drain() == []
        shop.execute(*_CHANGES)
        assert shop.drain() == []
        assert shop.differences(*_TABLES) == dict.fromkeys(_TABLES, (0, 0, 0))
        shop.execute(*_COPIED)
        assert shop.drain() == []
        assert shop.differences("orders2", "parts") == dict.fromkeys(("orders2", "parts"), (0, 0, 0))
