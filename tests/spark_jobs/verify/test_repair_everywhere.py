"""Rows brought right by `RowRepair` on every server, of every type, and while others write and drain."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.sql import quote
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.repair import RowRepair
from spark_jobs.verify.verified import Verified
from tests.support import type_matrix
from tests.support.matrix_runs import grouped
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import briefly, source_of
from tests.support.threads import Over, beside

pytestmark = [pytest.mark.integration, pytest.mark.full]


def repaired(shop: Shop, table: str) -> Verified:
    """The table, compared and repaired."""
    there = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=600, sleep=briefly)
    mending = replace(there, settle=RowRepair(shop.lake.sessions, "the run").of)
    (found,) = compared(mending, [(shop.database, table)])
    return found


def in_lake(shop: Shop, table: str, statement: str) -> None:
    """Done by Spark; `{}` is the table. Tries again where a run's commit came in between."""
    path = f"delta.{quote(shop.lake.lake.path(shop.database, table))}"
    for left in reversed(range(30)):
        try:
            with shop.lake.sessions.take() as spark:
                spark.sql(statement.replace("{}", path)).collect()
            return
        except Exception as error:
            if not left or "CONCURRENT" not in str(error):
                raise


@pytest.mark.in_turn
def test_on_another_server(mysql57: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Rows that are gone, changed, or added. What the stream brings later applies without a warning."""
    with opened_shop(mysql57, spark_remote, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(12,2) NOT NULL)")
        shop.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}', {n}.25)" for n in range(200)))
        assert shop.drain() == []
        in_lake(shop, "t", "DELETE FROM {} WHERE id < 3")
        in_lake(shop, "t", "UPDATE {} SET v = 'wrong' WHERE id < 6")
        in_lake(shop, "t", "INSERT INTO {} VALUES (9001, 'never', 0)")
        found = repaired(shop, "t")
        assert (found.repaired, found.differences, found.error) == (7, 0, "")
        assert shop.differences("t") == {"t": (0, 0, 0)}
        shop.execute("UPDATE t SET v = 'new' WHERE id < 10", "INSERT INTO t VALUES (9001, 'now', 0)")
        assert shop.drain() == []
        assert shop.differences("t") == {"t": (0, 0, 0)}
        assert shop.warnings == []


@pytest.mark.in_turn
@pytest.mark.parametrize("family", [*type_matrix.FAMILIES, "mariadb", "vectors"])
def test_every_type(family: str, spark_remote: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Of each table a third of the rows is gone from the lake, or has another row's values."""
    server = {"mariadb": "mariadb", "vectors": "mysql9"}.get(family, "mysql8")
    cases: Callable[[random.Random], Any] = getattr(type_matrix, family)
    with opened_shop(request.getfixturevalue(server), spark_remote, tmp_path) as shop:
        groups = grouped(cases(random.Random(family)))[:2]
        mode = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
        for group in groups:
            shop.execute(mode, group.ddl, *group.inserts())
        assert shop.drain() == []
        for group in groups:
            path = shop.lake.lake.path(shop.database, group.table)
            assert shop.differences(group.table) == {group.table: (0, 0, 0)}
            columns = ", ".join(quote(field.name) for field in DeltaTable(path).schema().fields[1:])
            in_lake(shop, group.table, "DELETE FROM {} WHERE id % 3 = 1")
            in_lake(shop, group.table, f"INSERT INTO {{}} SELECT id + 1, {columns} FROM {{}} WHERE id % 3 = 0")
            found = repaired(shop, group.table)
            assert (found.differences, found.error) == (0, "")
            assert found.repaired
            assert shop.differences(group.table) == {group.table: (0, 0, 0)}


@pytest.mark.in_turn
def test_beside_writes_and_drains(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Others write the damaged rows and the others all the time, and runs apply them."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        repaired_beside_writes(shop)


def repaired_beside_writes(shop: Shop) -> None:
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(12,2) NOT NULL)")
    shop.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}', {n}.25)" for n in range(2000)))
    assert shop.drain() == []
    chosen, damaging = random.Random(3), threading.Lock()  # a run's commits leave Spark's statements no gap

    def write(over: Over) -> None:
        while not over(0.5):
            here = chosen.randrange(2000)
            shop.execute(
                f"UPDATE t SET v = CONCAT('w', {here}) WHERE id BETWEEN {here} AND {here + 20}",
                f"DELETE FROM t WHERE id = {here}",
                f"REPLACE INTO t VALUES ({chosen.randrange(2100)}, 'again', 1)",
            )

    def drain(over: Over) -> None:
        while not over(0.2):
            try:
                with damaging:
                    shop.batch(100_000)
            except LakeError as error:  # the damage was done beside its MERGE; the batch was given back
                if "CONCURRENT" not in str(error):
                    raise

    with beside(write, drain):
        for _ in range(3):
            with damaging:
                in_lake(shop, "t", "DELETE FROM {} WHERE id % 50 = 3")
                in_lake(shop, "t", "UPDATE {} SET d = 77 WHERE id % 50 = 4")
            found = repaired(shop, "t")
            assert (found.differences, found.error) == (0, "")
            assert found.repaired
    assert shop.drain() == []
    assert shop.differences("t") == {"t": (0, 0, 0)}
