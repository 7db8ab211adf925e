"""A union in an S3 server: its log names the shards' files as delta-rs and Spark find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.connect.session import SparkSession

from cdc_core.schema.names import split_name
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Copy, Maintain, Verify
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.session import Sessions
from spark_jobs.union.publish import publish
from spark_jobs.write.order import Engine
from tests.support.s3a import s3a_spark
from tests.support.union_trial import CREATE, Rows, UnionTrial, opened_union, plain

pytestmark = pytest.mark.integration
ORDERS = Union("all.orders", r"shop_(.+)\.orders", ("shop",), "region")
SHOPS = ("1", "a b+c", "é%41=&#")


@pytest.fixture
def lake(object_store: str, tmp_path: Path) -> Lake:
    """It has a union of shards whose names have signs that paths escape; one has a column more."""
    lake = Lake(f"{object_store}/{tmp_path.name}", unions=Unions("eu", (ORDERS,)))
    for number, shop in enumerate(SHOPS):
        write(lake, f"shop_{shop}.orders", {"id": [number, 10 + number]} | ({"v": ["x", None]} if number else {}))
    assert publish(lake, ORDERS).added == len(SHOPS)
    return lake


def write(lake: Lake, table: str, rows: dict[str, Any]) -> None:
    path, found = lake.path(*split_name(table)), pa.table(rows)
    if not DeltaTable.is_deltatable(path):
        noted = {DESTINATION: "eu", TABLE: table}
        DeltaTable.create(path, found.schema, configuration=noted, raise_if_key_not_exists=False)
    write_deltalake(path, found, mode="append", schema_mode="merge")


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = DeltaTable(lake.path("all", "orders")).to_pyarrow_table(columns=["id", "v", "region", "shop"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=str)


def expected(*more: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    pairs = [(number, shop, one) for number, shop in enumerate(SHOPS) for one in (0, 1)]
    found = [(10 * one + n, None if one or not n else "x", "eu", shop) for n, shop, one in pairs]
    return sorted([*found, *more], key=str)


def test_delta_rs_finds_a_unions_files(lake: Lake) -> None:
    """And each publish takes a shard's new and old files, whatever signs its name has; the same again does nothing."""
    assert rows(lake) == expected()
    for shop in SHOPS:
        write(lake, f"shop_{shop}.orders", {"id": [77], "v": ["new"]})
    assert publish(lake, ORDERS).added == len(SHOPS)
    assert rows(lake) == expected(*((77, "new", "eu", shop) for shop in SHOPS))
    for shop in SHOPS:
        lake.open(lake.path(f"shop_{shop}", "orders")).delete("id = 77")
    done = publish(lake, ORDERS)
    assert (done.added, done.removed, rows(lake)) == (0, len(SHOPS), expected())
    again = publish(lake, ORDERS)
    assert (again.version, again.changed) == (done.version, False)


@pytest.fixture(scope="module")
def remote(object_store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3a_spark(tmp_path_factory.mktemp("s3a")) as found:
        yield found


@pytest.fixture
def spark(remote: str) -> Iterator[SparkSession]:
    with Sessions(remote) as sessions, sessions.take() as session:
        yield session


@pytest.fixture
def trial(mysql8: MySqlServer, remote: str, object_store: str, tmp_path: Path) -> Iterator[UnionTrial]:
    with opened_union(mysql8, remote, tmp_path, f"{object_store}/{tmp_path.name}") as trial:
        yield trial


@pytest.mark.in_turn
@pytest.mark.full
def test_spark_finds_a_unions_files(lake: Lake, spark: SparkSession) -> None:
    """As delta-rs does, with whose a row is, and by that column."""
    table = f"delta.`{lake.path('all', 'orders')}`"
    found = [tuple(row) for row in spark.sql(f"SELECT id, v, region, shop FROM {table}").collect()]
    assert sorted(found, key=str) == rows(lake) == expected()
    for number, shop in enumerate(SHOPS):
        ids = [row.id for row in spark.sql(f"SELECT id FROM {table} WHERE shop = '{shop}'").collect()]
        assert sorted(ids) == [number, 10 + number]


@pytest.mark.in_turn
@pytest.mark.full
def test_a_union_is_the_sum_of_its_sources(trial: UnionTrial) -> None:
    """Of a real source, by Spark's statements in the store: tables that are made, merged and altered, a table that is
    copied, one that is emptied, the comparison and the upkeep. Spark and delta-rs read the end."""
    a, b, c = trial.names
    trial.shop.lake = replace(trial.shop.lake, engine=Engine.SQL)
    for name in (a, b):
        trial.write(name, CREATE, f"INSERT INTO orders VALUES (1, 10, '{name}'), (2, 20, '{name}'), (3, 30, 'x')")
    assert trial.run() == []
    assert not trial.command(Copy(tables=[f"{c}.orders"])).failed
    assert trial.in_union() == trial.at_source()
    trial.write(a, "UPDATE orders SET n = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    trial.write(c, "UPDATE orders SET what = 'new' WHERE id = 2", "INSERT INTO orders VALUES (4, 4, 'd')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    trial.write(a, "ALTER TABLE orders RENAME COLUMN what TO that", "INSERT INTO orders VALUES (5, 5, 'e')")
    trial.write(b, "TRUNCATE TABLE orders", "INSERT INTO orders VALUES (6, 6, 'f')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    assert not trial.command(Verify()).failed
    assert not trial.command(Maintain()).failed
    with trial.shop.lake.sessions.take() as spark:
        there = spark.sql(f"SELECT * FROM delta.`{trial.path}`").toArrow().to_pylist()
    assert Rows(map(plain, there)) == trial.at_source() == trial.in_union()
