"""A Spark standalone cluster, with the lake on a path that all processes share and in an S3 server: what is written by
the job of small tables and by statements."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from tests.support.cluster import Cluster
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import found_beside

pytestmark = [pytest.mark.integration, pytest.mark.full]

LARGE = 25_000  # rows in one claim, which are too many for the job of small tables
FUSED, SPARK = "delta-rs", "Apache-Spark"
_ROWS = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LARGE}) SELECT i, 'row' FROM n"


@pytest.fixture(scope="module")
def cluster(object_store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its executors have the S3 server's variables, and this process's path is not theirs."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with Cluster(tmp_path_factory.mktemp("cluster") / "spark", variables) as found:
        yield found


@pytest.fixture(params=["a shared path", "S3"])
def shop(
    request: pytest.FixtureRequest, mysql8: MySqlServer, cluster: Cluster, object_store: str, tmp_path: Path
) -> Iterator[Shop]:
    """Whose lake is at one of the two."""
    root = str(tmp_path / "lake") if request.param == "a shared path" else f"{object_store}/{tmp_path.name}"
    with shop_at(root, mysql8, cluster, tmp_path) as found:
        yield found


@contextmanager
def shop_at(root: str, mysql: MySqlServer, cluster: Cluster, folder: Path) -> Iterator[Shop]:
    with opened_shop(mysql, cluster.remote, folder) as shop, Sessions(cluster.remote, "", root) as sessions:
        lake = Lake(root, complete=True)
        yield replace(shop, lake=replace(shop.lake, lake=lake, sessions=sessions, fence=Fence(lake, sessions)))


def path_of(shop: Shop, table: str) -> str:
    return shop.lake.lake.path(shop.database, table)


def last_writer(shop: Shop, table: str) -> str:
    """What made the table's latest commit."""
    return (
        str(shop.lake.lake.open(path_of(shop, table)).history(1)[0]["engineInfo"]).partition("/")[0].partition(":")[0]
    )


def check(shop: Shop, tables: Sequence[str]) -> None:
    """`sluice verify` finds no difference."""
    for table in tables:
        found = found_beside(shop, table)
        assert found.comparison is not None, found.error
        assert not found.differences, found


def test_what_is_written_is_as_at_the_source(shop: Shop) -> None:
    """Small tables by their job, large shares by statements whose rows executors pull, with a key and without one."""
    shop.execute(
        "CREATE TABLE small (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE bag (a INT, b VARCHAR(20))",
        "CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE heap (a INT, b VARCHAR(20))",
        "SET SESSION cte_max_recursion_depth = 1000000",
        f"INSERT INTO large {_ROWS}",
        f"INSERT INTO heap {_ROWS}",
        "INSERT INTO small VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (2, NULL)",
    )
    assert shop.drain(100_000) == []
    shop.execute(
        "UPDATE small SET v = 'z' WHERE id = 1",
        "DELETE FROM small WHERE id = 2",
        "DELETE FROM bag WHERE a = 1 LIMIT 1",
        "UPDATE large SET v = 'new' WHERE id % 100 > 2",
        "DELETE FROM heap WHERE a % 100 > 2",
    )
    assert shop.drain(100_000) == []
    tables = {"small": FUSED, "bag": FUSED, "large": SPARK, "heap": SPARK}
    assert {name: last_writer(shop, name) for name in tables} == tables
    check(shop, [*tables])
