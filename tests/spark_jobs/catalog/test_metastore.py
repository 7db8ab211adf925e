"""A Hive metastore of a process of its own, which two Sparks share, and which dies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cdc_core.errors import LakeError
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.spark import SparkConnect
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.catalog.standing import owed
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode
from spark_jobs.session import Sessions
from tests.support.landed import LandedShop, opened_landed
from tests.support.metastore import Metastore
from tests.support.registered import names, register, rows
from tests.support.servers import free_port

pytestmark = [pytest.mark.integration, pytest.mark.full]
RULES = CatalogRules()


@dataclass
class World:
    """The metastore, and a Spark that uses it."""

    metastore: Metastore
    spark: SparkConnect


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("metastore")
    metastore = Metastore(directory / "metastore", free_port()).start()
    conf = {**metastore.conf, "spark.sql.warehouse.dir": str(directory / "warehouse")}
    spark = SparkConnect(directory / "spark", free_port(), conf=conf, driver_memory="1g").start()
    yield World(metastore, spark)
    spark.kill()
    metastore.kill()


@pytest.fixture
def shop(mysql8: MySqlServer, world: World, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, world.spark.remote, tmp_path) as shop:
        lake = Lake(shop.lake.lake.root, complete=True, catalog=RULES)
        shop.lake = replace(shop.lake, lake=lake, owe=CatalogNotes(lake, "shop", 1001).owe)
        yield shop


@pytest.mark.in_turn(2)
def test_a_metastore_that_dies_holds_up_no_batch(shop: LandedShop, world: World) -> None:
    """Small tables and change logs are written without Spark's names. What came meanwhile is registered when the
    metastore is back; it still has what it had."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    shop.mode = Mode.MERGE
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    assert shop.land() == []
    assert register(lake, world.spark.remote, RULES).failed == {}
    world.metastore.kill()
    try:
        shop.execute("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (2)", "INSERT INTO a VALUES (3)")
        assert shop.land() == []
        assert shop.differences("a", "b") == {"a": (0, 0, 0), "b": (0, 0, 0)}
        path = lake.path(database, "a")
        with pytest.raises(LakeError), sessions.take() as spark, lake_errors(path, "a remedy"):
            spark.sql(f"UPDATE delta.`{path}` SET id = id")  # Spark asks it for a path too: no fault of the table
        with pytest.raises(LakeError, match="does not answer"):
            register(lake, world.spark.remote, RULES)
        assert owed(lake, RULES, CatalogNotes(lake, "shop", 1001).read())
    finally:
        world.metastore.start()

    assert register(lake, world.spark.remote, RULES).done == {"b": f"registered as spark_catalog.{database}.b"}
    assert rows(sessions, f"SELECT id FROM {database}.a") == [(1,), (3,)]
    assert rows(sessions, f"SELECT id FROM {database}.b") == [(2,)]


@pytest.mark.in_turn(2)
def test_names_and_views_outlive_a_spark(shop: LandedShop, world: World) -> None:
    """Another one of the same metastore reads the table, and its view as of the end of the log."""
    lake, database = shop.lake.lake, shop.database
    shop.mode = Mode.LAND_FIRST
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'x')")
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    shop.execute("INSERT INTO t VALUES (2, 'y')")
    assert shop.land() == []
    assert register(lake, world.spark.remote, RULES).failed == {}
    world.spark.kill()
    world.spark.start()

    with Sessions(world.spark.remote) as sessions:
        assert names(sessions, database) == {"t", "t__log", "t__now"}
        assert rows(sessions, f"SELECT id, v FROM {database}.t__now") == [(1, "x"), (2, "y")]
        assert rows(sessions, f"SELECT id FROM {database}.t") == [(1,)]
