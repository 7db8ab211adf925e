"""Histories are compared with their tables, on a real lake: damage is found, and what is behind is not taken for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.landing.modes import Mode
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.verify.history import histories_compared
from spark_jobs.verify.verified import Verified
from tests.support.landed import LandedShop, opened_landed
from tests.support.small_lake import source_of

pytestmark = [pytest.mark.integration, pytest.mark.full]


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        shop.mode = Mode.HISTORY
        shop.run()
        yield shop


def compared(shop: LandedShop, *tables: str, seconds: float = 600) -> list[Verified]:
    beside = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=seconds)
    return list(histories_compared(beside, map(shop.named, tables)))


def damage(shop: LandedShop, statement: str) -> None:
    """`{h}` is the history of `t`."""
    path = shop.lake.lake.history_path(shop.database, "t")
    with shop.lake.sessions.take() as spark:
        spark.sql(statement.format(h=f"delta.`{path}`"))


@pytest.mark.in_turn
def test_damage_is_found_and_what_is_behind_is_not_damage(shop: LandedShop) -> None:
    """A row that is gone, another value, a second current version of a key; then changes that the log has, and those
    that the table has and the history has not."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    shop.land()
    shop.execute("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, NULL)")
    shop.land()
    shop.keep("t")

    (found,) = compared(shop, "t", "u")  # u has no history so far
    assert (found.table, found.differences, found.error) == (f"{shop.named('t')}__history", 0, "")
    assert found.comparison is not None
    assert (found.comparison.source_rows, found.comparison.lake_rows) == (2, 2)

    damage(shop, "UPDATE {h} SET v = 'x' WHERE is_current AND id = 1")
    damage(shop, "INSERT INTO {h} SELECT * FROM {h} WHERE is_current AND id = 3")
    damage(shop, "UPDATE {h} SET is_current = true WHERE id = 2")
    (found,) = compared(shop, "t")
    assert found.comparison is not None
    assert (found.comparison.missing, found.comparison.extra, found.comparison.different) == (0, 2, 1)
    assert "Move the folder of the history away" in found.remedy
    damage(shop, "UPDATE {h} SET valid_to = valid_from WHERE is_current AND id = 1")
    (found,) = compared(shop, "t")
    assert found.comparison is not None
    assert found.comparison.missing == 1
    damage(shop, "DELETE FROM {h} WHERE is_current AND id = 1")
    (found,) = compared(shop, "t")
    assert found.comparison is not None
    assert found.comparison.missing == 1

    shop.execute("INSERT INTO t VALUES (4, 'd')")
    shop.land()
    (found,) = compared(shop, "t")  # the log alone has the new row
    assert found.comparison is not None
    assert found.comparison.source_rows == 2
    shop.merger().whole(shop.named("t"))
    (found,) = compared(shop, "t", seconds=1)
    assert found.comparison is None
    assert "has not caught up with its table" in found.error
    assert found.differences == 1


@pytest.mark.in_turn
def test_a_dropped_table_has_no_current_rows(shop: LandedShop) -> None:
    """Nor has one that was emptied; a rewind changes nothing."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    begin = shop.connector.client_status().cursor
    shop.land()
    shop.keep("t")
    assert begin is not None
    shop.reset(begin)
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1")
    shop.land()
    shop.keep("t")
    assert [one.differences for one in compared(shop, "t")] == [0]
    shop.execute("TRUNCATE TABLE t")
    shop.land()
    shop.keep("t")
    assert [(one.differences, one.comparison and one.comparison.lake_rows) for one in compared(shop, "t")] == [(0, 0)]
    shop.execute("INSERT INTO t VALUES (7, 'z')")
    shop.land()
    shop.keep("t")
    shop.execute("DROP TABLE t")
    shop.land()
    shop.keep("t")
    assert [(one.differences, one.comparison and one.comparison.lake_rows) for one in compared(shop, "t")] == [(0, 0)]
