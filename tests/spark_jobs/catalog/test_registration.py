"""The lake's tables in a Hive metastore, as a real source changes them: registered, renamed, dropped, repaired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import ConfigError
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.spark import SparkConnect
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.catalog.standing import owed
from spark_jobs.following.now import refresh_view
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.policies import Dropped, Policies, TablePolicy
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.landing.modes import Mode
from tests.support.landed import LandedShop, opened_landed
from tests.support.registered import names, register, rows

pytestmark = pytest.mark.integration
RULES = CatalogRules()


@pytest.fixture
def shop(mysql8: MySqlServer, hive: SparkConnect, tmp_path: Path) -> Iterator[LandedShop]:
    """A shop whose runs note what they owe to the catalog."""
    with opened_landed(mysql8, hive.remote, tmp_path) as shop:
        lake = Lake(shop.lake.lake.root, complete=True, catalog=RULES)
        shop.lake = replace(shop.lake, lake=lake, owe=CatalogNotes(lake, "shop", 1001).owe)
        shop.mode = Mode.MERGE
        yield shop


def why(shop: LandedShop, rules: CatalogRules = RULES) -> str:
    """Why the sensor would start a registration, or ""."""
    return owed(shop.lake.lake, rules, CatalogNotes(shop.lake.lake, "shop", 1001).read())


@pytest.mark.in_turn
@pytest.mark.full
def test_tables_are_registered_and_follow_the_source(shop: LandedShop, hive: SparkConnect) -> None:
    """By name the rows are those at the path; a registration commits nothing; renames and drops move and remove names,
    and what the policy keeps stays."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(9)) COMMENT 'of a'", "INSERT INTO a VALUES (1, 'x')")
    shop.execute("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (7)")
    assert shop.land() == []
    versions = [DeltaTable(lake.path(database, table)).version() for table in "ab"]
    assert why(shop)

    said = register(lake, hive.remote, RULES)

    assert said.done == {table: f"registered as spark_catalog.{database}.{table}" for table in "ab"}
    assert versions == [DeltaTable(lake.path(database, table)).version() for table in "ab"]
    assert rows(sessions, f"SELECT * FROM {database}.a") == [(1, "x")]
    assert "of a" in str(rows(sessions, f"SHOW TABLE EXTENDED IN {database} LIKE 'a'"))
    assert not why(shop)
    assert register(lake, hive.remote, RULES).done == {"shop": "the catalog spark_catalog has all 2 tables"}

    shop.execute("RENAME TABLE a TO c", "ALTER TABLE c ADD n INT DEFAULT 5", "DROP TABLE b")
    assert shop.land() == []
    assert why(shop)
    said = register(lake, hive.remote, RULES)
    assert said.done == {
        "a": f"no longer registered as spark_catalog.{database}.a",
        "c": f"registered as spark_catalog.{database}.c",
    }
    assert names(sessions, database) == {"b", "c"}
    assert rows(sessions, f"SELECT * FROM {database}.c") == [(1, "x", 5)]
    assert rows(sessions, f"SELECT * FROM {database}.b") == [(7,)]

    shop.lake = replace(shop.lake, policies=Policies(TablePolicy(Dropped.ARCHIVE)))
    shop.execute("DROP TABLE c")
    assert shop.land() == []
    assert "statements" in why(shop)
    register(lake, hive.remote, RULES)
    assert names(sessions, database) == {"b"}
    assert not why(shop)


@pytest.mark.in_turn
def test_a_union_has_a_name_and_its_shards_have_none(shop: LandedShop, hive: SparkConnect) -> None:
    """By its name, too, it gets the columns that come later."""
    database, sessions = shop.database, shop.lake.sessions
    into = Unions("shop", (Union(f"{database}.orders", rf"{database}\.orders_(\d)", ("shop",)),))
    lake = Lake(shop.lake.lake.root, complete=True, catalog=RULES, unions=into)
    shop.lake = replace(shop.lake, lake=lake)
    for number, text in ((1, "x"), (2, "y")):
        shop.execute(
            f"CREATE TABLE orders_{number} (id INT PRIMARY KEY, v VARCHAR(9))",
            f"INSERT INTO orders_{number} VALUES ({number}, '{text}')",
        )
    assert shop.land() == []

    said = register(lake, hive.remote, RULES)

    assert said.done == {"orders": f"registered as spark_catalog.{database}.orders"}
    assert names(sessions, database) == {"orders"}
    assert rows(sessions, f"SELECT * FROM {database}.orders") == [(1, "x", "1"), (2, "y", "2")]
    shop.execute("ALTER TABLE orders_1 ADD n INT DEFAULT 5")
    assert shop.land() == []
    assert rows(sessions, f"SELECT id, n, shop FROM {database}.orders WHERE shop = '1'") == [(1, 5, "1")]


@pytest.mark.in_turn
def test_logs_histories_and_views_have_names(shop: LandedShop, hive: SparkConnect) -> None:
    """The view shows the table as of the end of its log. What somebody dropped comes back with its rows."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    shop.mode = Mode.HISTORY
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'x')")
    assert shop.land() == []
    shop.keep("t")
    shop.execute("INSERT INTO t VALUES (2, 'y')")
    assert shop.land() == []

    said = register(lake, hive.remote, RULES)

    assert said.failed == {}
    assert names(sessions, database) == {"t", "t__log", "t__history", "t__now"}
    assert rows(sessions, f"SELECT id, v FROM {database}.t") == [(1, "x")]
    assert rows(sessions, f"SELECT id, v FROM {database}.t__now") == [(1, "x"), (2, "y")]
    with sessions.take() as spark:
        spark.sql(f"DROP TABLE {database}.t")
        spark.sql(f"DROP VIEW {database}.t__now")
    said = register(lake, hive.remote, RULES)
    assert said.done == {"t": f"has the view spark_catalog.{database}.t__now"}
    assert rows(sessions, f"SELECT id, v FROM {database}.t") == [(1, "x")]
    assert rows(sessions, f"SELECT id, v FROM {database}.t__now") == [(1, "x"), (2, "y")]


@pytest.mark.in_turn
def test_a_name_that_is_taken_stops_that_registration_alone(
    shop: LandedShop, hive: SparkConnect, tmp_path: Path
) -> None:
    """Also two tables of one name in a catalog that lowers case: the error names both. Nothing is asked for again
    until something changes; other names resolve it."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    write_deltalake(str(tmp_path / "other"), pa.table({"theirs": [1]}))
    with sessions.take() as spark:
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"CREATE TABLE {database}.a USING delta LOCATION '{tmp_path / 'other'}'")
    for table in ("a", "b", "C", "c"):
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    assert shop.land() == []

    said = register(lake, hive.remote, RULES)

    assert set(said.done) == {"b"}
    assert f"a table at file:{tmp_path / 'other'} by the name spark_catalog.{database}.a" in said.failed["a"]
    assert f"{database}.C and {database}.c would both be" in said.failed["c"]
    assert set(said.failed) == {"a", "C", "c"}
    assert rows(sessions, f"SELECT * FROM {database}.a") == [(1,)]
    assert names(sessions, database) == {"a", "b"}
    assert not why(shop)
    other = CatalogRules(database="lake_{database}")
    assert "new" in why(shop, other)
    said = register(lake, hive.remote, other)
    assert names(sessions, database) == {"a"}
    assert names(sessions, f"lake_{database}") == {"a", "b"}
    assert set(said.failed) == {"C", "c"}


@pytest.mark.in_turn
def test_a_catalog_that_spark_does_not_know_holds_up_no_batch(shop: LandedShop, hive: SparkConnect) -> None:
    """The batch is acked, the registration is owed, and made up when the catalog is there."""
    lake = shop.lake.lake
    away = CatalogRules("nowhere")
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    assert shop.land() == []
    with pytest.raises(ConfigError, match="no such catalog"):
        register(lake, hive.remote, away)
    shop.execute("ALTER TABLE a ADD n INT", "INSERT INTO a VALUES (2, 2)")
    assert shop.land() == []
    assert why(shop, away)
    assert shop.differences("a") == {"a": (0, 0, 0)}

    register(lake, hive.remote, RULES)

    assert rows(shop.lake.sessions, f"SELECT count(*) FROM {shop.database}.a") == [(2,)]
    assert not why(shop)


@pytest.mark.in_turn
def test_a_statement_that_comes_meanwhile_is_owed_still(shop: LandedShop, hive: SparkConnect) -> None:
    """A registration notes what it looked at, not what came since."""
    notes = CatalogNotes(shop.lake.lake, "shop", 1001)
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    assert shop.land() == []
    before = notes.read()
    notes.owe()
    notes.settle(RULES, shop.lake.lake.folders(), before.owed)

    assert why(shop) == "DDL statements changed tables"
    register(shop.lake.lake, hive.remote, RULES)
    assert not why(shop)


@pytest.mark.in_turn
def test_a_table_that_somebody_registered_is_taken_over(shop: LandedShop, hive: SparkConnect) -> None:
    """It is the same table, by its path; it follows the source from then on."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    assert shop.land() == []
    with sessions.take() as spark:
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"CREATE TABLE {database}.a USING delta LOCATION '{lake.path(database, 'a')}'")

    assert register(lake, hive.remote, RULES).done == {"shop": "the catalog spark_catalog has all 1 tables"}
    shop.execute("RENAME TABLE a TO b")
    assert shop.land() == []
    register(lake, hive.remote, RULES)
    assert names(sessions, database) == {"b"}


@pytest.mark.in_turn
def test_a_view_is_known_by_its_log(shop: LandedShop, hive: SparkConnect) -> None:
    """A person's view is left alone, and of two tables whose views get one name the first has it: by merges and by
    registration."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    shop.mode = Mode.LAND_FIRST
    with sessions.take() as spark:
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"CREATE VIEW {database}.c__now AS SELECT 9 AS id")
    for number, table in enumerate(("a-b", "a_b", "c")):
        shop.execute(f"CREATE TABLE `{table}` (id INT PRIMARY KEY)", f"INSERT INTO `{table}` VALUES ({number})")
    assert shop.land() == []
    for table in ("a-b", "a_b", "c"):
        shop.merger().whole(shop.named(table))
    errors = [refresh_view(sessions, shop.follows, shop.named(table)) for table in ("a-b", "a_b", "c")]

    refused = ["a view" in error for error in errors]
    assert refused in ([False, True, True], [True, False, True])  # by which of them landed first
    other = ("a-b", "a_b")[refused.index(True)]
    said = register(lake, hive.remote, RULES)

    assert set(said.done) == {"c", "c__log"}
    assert set(said.failed) == {"a-b", "a_b", "a-b__log", "a_b__log", f"{other}__now", "c__now"}
    assert "__now would both be" in said.failed[f"{other}__now"]
    assert "a view that Sluice did not make" in said.failed["c__now"]
    assert rows(sessions, f"SELECT id FROM {database}.a_b__now") == [(refused.index(False),)]
    assert rows(sessions, f"SELECT id FROM {database}.c__now") == [(9,)]
    assert not why(shop)


@pytest.mark.in_turn
@pytest.mark.full
def test_views_follow_templates_and_drops(shop: LandedShop, hive: SparkConnect) -> None:
    """Also a drop that came while no registration ran."""
    lake, sessions, database = shop.lake.lake, shop.lake.sessions, shop.database
    shop.mode, other = Mode.LAND_FIRST, CatalogRules(database="lake_{database}")
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    register(lake, hive.remote, RULES)
    assert names(sessions, database) == {"t", "t__log", "t__now"}
    register(lake, hive.remote, other)
    assert names(sessions, database) == set()
    assert names(sessions, f"lake_{database}") == {"t", "t__log", "t__now"}
    shop.lake = replace(shop.lake, policies=Policies(TablePolicy(Dropped.ARCHIVE)))
    shop.execute("DROP TABLE t")
    assert shop.land() == []
    register(lake, hive.remote, other)

    assert "t__now" not in names(sessions, f"lake_{database}")
