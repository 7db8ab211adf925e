"""A Spark standalone cluster, with the lake on a path that all processes share and in an S3 server: what is written by
the job of small tables, by statements and by executors that read the source, and what a lost executor leaves behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem
from rich.console import Console

from cdc_core import config
from cdc_core.errors import LakeError
from orchestration.commands.check import looked, show
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.process import Process
from orchestration.verbs.access import Access
from spark_jobs.check.findings import Finding
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.result import Copied
from spark_jobs.session import Sessions
from spark_jobs.snapshot.limits import Limits
from tests.support.cluster import HOSTS, Cluster
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import found_beside
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.full]

SMALL = [f"t{number}" for number in range(40)]
LARGE = 25_000  # rows in one claim, which are too many for the job of small tables
FUSED, SPARK = "delta-rs", "Apache-Spark"
_ROWS = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LARGE}) SELECT i, 'row' FROM n"


@pytest.fixture(scope="module")
def cluster(object_store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its executors have the S3 server's variables, and this process's path is not theirs."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with Cluster(tmp_path_factory.mktemp("cluster") / "spark", variables) as found:
        yield found


@pytest.fixture(params=["S3", "a shared path"])
def root(request: pytest.FixtureRequest, object_store: str, tmp_path: Path) -> str:
    """Where a lake is to be."""
    return str(tmp_path / "lake") if request.param == "a shared path" else f"{object_store}/{tmp_path.name}"


@pytest.fixture
def shop(root: str, mysql8: MySqlServer, cluster: Cluster, tmp_path: Path) -> Iterator[Shop]:
    """Whose lake is at one of the two."""
    with shop_at(root, mysql8, cluster, tmp_path) as found:
        yield found


@pytest.fixture
def old_shop(root: str, mysql8: MySqlServer, cluster: Cluster, tmp_path: Path) -> Iterator[Shop]:
    """The same, with a large table and small ones from before the capture."""
    with mysql8.database("before") as database:
        mysql8.execute(
            "CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(20))",
            "SET SESSION cte_max_recursion_depth = 1000000",
            f"INSERT INTO large {_ROWS}",
            *small_tables(),
            database=database,
        )
        keys = {"canal_instance_filter_regex": rf"{database}\\..*"}
        with shop_at(root, mysql8, cluster, tmp_path, **keys) as found:
            found.database = database
            yield found


@pytest.fixture
def here(mysql8: MySqlServer, cluster: Cluster, tmp_path: Path) -> Iterator[Shop]:
    """Whose lake is on a shared path."""
    with shop_at(str(tmp_path / "lake"), mysql8, cluster, tmp_path) as found:
        yield found


@contextmanager
def shop_at(root: str, mysql: MySqlServer, cluster: Cluster, folder: Path, **keys: str) -> Iterator[Shop]:
    with (
        opened_shop(mysql, cluster.remote, folder, None, **keys) as shop,
        Sessions(cluster.remote, "", root) as sessions,
    ):
        lake = Lake(root, complete=True)
        yield replace(shop, lake=replace(shop.lake, lake=lake, sessions=sessions, fence=Fence(lake, sessions)))


def loader_of(shop: Shop, folder: Path, rows_per_second: float | None = None) -> Loader:
    instance, _ = config.load_instance(folder / "conf", "shop")
    manner = Manner(1000, Limits(rows_per_second, 2))
    return Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, manner)


def path_of(shop: Shop, table: str) -> str:
    return shop.lake.lake.path(shop.database, table)


def last_writer(shop: Shop, table: str) -> str:
    """What made the table's latest commit."""
    (last,) = shop.lake.lake.open(path_of(shop, table)).history(1)
    return next((name for name in (FUSED, SPARK) if name in last["engineInfo"]), str(last))


def small_tables() -> Iterator[str]:
    """The statements that make them, with a row each."""
    for name in SMALL:
        yield f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20))"
        yield f"INSERT INTO {name} VALUES (1, 'a')"


def check(shop: Shop, tables: Sequence[str]) -> None:
    """`sluice verify` finds no difference."""
    for table in tables:
        found = found_beside(shop, table)
        assert found.comparison is not None, found.error
        assert not found.differences, found


@pytest.mark.in_turn
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


@pytest.mark.in_turn
def test_executors_read_a_snapshot(old_shop: Shop, tmp_path: Path) -> None:
    """What was there before goes into the lake: a large table by executors, small ones many at a time."""
    loader = loader_of(old_shop, tmp_path)
    assert isinstance(loader.table(old_shop.database, "large"), Copied)
    for loading in loader.tables([f"{old_shop.database}.{name}" for name in SMALL]):
        assert isinstance(loading.outcome(), Copied), loading.name
    old_shop.execute("UPDATE large SET v = 'new' WHERE id < 10", "UPDATE t0 SET v = 'new'")
    assert old_shop.drain() == []
    check(old_shop, ["large", *SMALL])


@pytest.mark.in_turn
@pytest.mark.parametrize("root", ["a shared path"], indirect=True)
def test_a_snapshot_goes_on_without_an_executor(old_shop: Shop, cluster: Cluster, tmp_path: Path) -> None:
    """Its shares are read again by another one: no row is there twice."""
    loader = loader_of(old_shop, tmp_path, rows_per_second=5000)
    executor, staging = cluster.executors()[0], Path(old_shop.lake.lake.staging_path("shop", ""))
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(kill_when, executor, lambda: any(staging.rglob("*.parquet")))
        assert isinstance(loader.table(old_shop.database, "large"), Copied)
        lost.result()
    check(old_shop, ["large"])
    cluster.await_executors()


@pytest.mark.in_turn(2)
def test_a_lost_executor_costs_nothing(here: Shop, cluster: Cluster) -> None:
    """Killed when the job has committed some of the tables and not the others: each has its change once."""
    here.execute(*small_tables())
    assert here.drain() == []
    before = {name: version_of(here, name) for name in SMALL}
    here.execute(*(f"UPDATE {name} SET v = 'b'" for name in SMALL))
    executor = cluster.executors()[0]
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(kill_when, executor, lambda: any(version_of(here, name) > before[name] for name in SMALL))
        assert here.drain() == []
        lost.result()
    assert {version_of(here, name) - before[name] for name in SMALL} == {1}
    check(here, SMALL)
    cluster.await_executors()


@pytest.mark.in_turn(2)
def test_a_lost_worker_costs_a_statement_nothing(here: Shop, cluster: Cluster) -> None:
    """Killed with its executor while a large share is merged: the other one does its part."""
    here.execute(
        "CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE heap (a INT, b VARCHAR(20))",
        "SET SESSION cte_max_recursion_depth = 1000000",
        f"INSERT INTO large {_ROWS}",
        f"INSERT INTO heap {_ROWS}",
    )
    assert here.drain(100_000) == []
    here.execute("UPDATE large SET v = 'new' WHERE id % 100 > 2", "DELETE FROM heap WHERE a % 100 > 2")
    busy = cpu_of(cluster)
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(kill_when, cluster.workers[1], lambda: cpu_of(cluster) > busy + 1)
        assert here.drain(100_000) == []
        lost.result()
    assert not cluster.workers[1].running
    check(here, ["large", "heap"])
    cluster.workers[1].start()
    cluster.await_executors()


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("lacks", "wrong"),
    [
        ({"hidden": ["deltalake"]}, {"deltalake", "this project", "the lake"}),
        ({"AWS_ENDPOINT_URL": "{http}"}, {"the lake"}),
        ({"hidden": ["spark_jobs"]}, {"this project"}),
        ({"grpc_proxy": "http://127.0.0.1:9"}, {"the Flight door"}),
    ],
    ids=lambda value: ", ".join(sorted(value)),
)
def test_an_executor_that_lacks_something_is_named_and_loses_nothing(
    lacks: dict[str, Any], wrong: set[str], cluster: Cluster, mysql8: MySqlServer, object_store: str, tmp_path: Path
) -> None:
    """One of two: the check says so, and leaves nothing behind. Tables go by the other one or by statements, or the
    batch goes back with a remedy and comes again."""
    root = f"{object_store}/{tmp_path.name}"
    with shop_at(root, mysql8, cluster, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v VARCHAR(20))",
            "CREATE TABLE bag (a INT, b VARCHAR(20))",
            "INSERT INTO keyed VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO bag VALUES (1, 'a'), (1, 'a')",
        )
        assert shop.drain() == []
        assert missing(shop, cluster, tmp_path) == {}
        shop.execute("UPDATE keyed SET v = 'z'", "DELETE FROM bag LIMIT 1", "INSERT INTO keyed VALUES (3, 'c')")
        there = {name: _with_http(value, shop) for name, value in lacks.items()}
        with cluster.other_worker(**there):
            found = missing(shop, cluster, tmp_path)
            assert {*found} == wrong
            assert {one.where for one in found.values()} == {(HOSTS[1],)}
            with suppress(LakeError):
                assert shop.drain() == []
        assert shop.drain() == []
        check(shop, ["keyed", "bag"])
        assert files_of(f"{root}/_sluice/check") == []


def files_of(folder: str) -> list[str]:
    """Without the empty objects by which S3A marks folders, and which delta-rs does not delete."""
    found = PyFileSystem(DeltaStorageHandler(folder)).get_file_info(FileSelector("", recursive=True))
    return [one.path for one in found if one.type is FileType.File and one.size]


def _with_http(value: Any, shop: Shop) -> Any:
    """A server that answers, and is no store."""
    return shop.connector.http_url if value == "{http}" else value


def missing(shop: Shop, cluster: Cluster, folder: Path) -> dict[str, Finding]:
    """What `sluice check` finds wrong, and shows."""
    root = shop.lake.lake.root
    at = Access(
        "shop", 1001, lambda: nullcontext(shop.connector), lambda: Sessions(cluster.remote, "", root), Lake(root),
        folder / "conf",
    )  # fmt: skip
    found = list(looked(at))
    show(Console(), found)
    assert len(found) > 5
    return {one.what: one for one in found if not one.good}


def version_of(shop: Shop, table: str) -> int:
    return shop.lake.lake.open(path_of(shop, table)).version()


def cpu_of(cluster: Cluster) -> float:
    """Seconds that the second worker's executor has computed."""
    found = 0.0
    for one in cluster.executors()[1:]:
        with suppress(psutil.Error):
            found += sum(one.cpu_times()[:2])
    return found


def kill_when(process: psutil.Process | Process, condition: Callable[[], bool]) -> None:
    """Kills it then; a worker with its executor."""
    until(condition)
    process.kill()
