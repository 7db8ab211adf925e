"""The change data feed of tables that delta-rs writes: what each commit did, row by row."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.features import CHANGE_FEED, FEED, features_of
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import Layouts
from spark_jobs.lake.tables import Lake
from spark_jobs.write import small_table
from spark_jobs.write.order import Engine
from tests.support.random_changes import rows, scripts
from tests.support.shop import opened_shop
from tests.support.small_orders import ordered
from tests.support.spark_feed import feed

COMES, GOES = ("insert", "update_postimage"), ("delete", "update_preimage")


@pytest.mark.in_turn
@pytest.mark.parametrize("listed", [False, True])
def test_the_feed_is_what_each_commit_did(tmp_path: Path, listed: bool) -> None:
    """Random changes of tables with every type, with a key and without one; whether the table lists its features, as
    Spark's do, or not."""
    lake = Lake(tmp_path)
    script_of = {one.table.name: one for one in scripts(random.Random(7)) if one.table.name != "floats"}
    with feed() as service:
        for name, script in script_of.items():
            before, at = Counter[Any](), 0
            for batch in range(1, 7):
                order = ordered(service, lake, script.table, script.changes(at, 12), batch, at, at + 12)
                at += 12
                if batch == 1:
                    begin_feed(order.path, listed=listed)
                outcome = small_table.written(order)
                service.changes.clear()
                service.tables.clear()
                after, done = rows(lake, name), changes_in(order.path, outcome.version)
                assert done["gone"] <= before, (name, batch)
                assert before - done["gone"] + done["come"] == after, (name, batch)
                assert not script.table.key or done["gone"].total() <= 12, (name, batch)
                before = after


def begin_feed(path: str, *, listed: bool) -> None:
    table = DeltaTable(path)
    if listed:
        table.alter.add_feature(TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True)
        assert FEED in features_of(table)
    table.alter.set_table_properties({CHANGE_FEED: "true"})


def changes_in(path: str, version: int) -> dict[str, Counter[Any]]:
    """The rows that came and those that went with a version, by the feed."""
    found = pa.table(DeltaTable(path).load_cdf(version, version).read_all())
    kinds, names = found["_change_type"].to_pylist(), [one for one in found.column_names if not one.startswith("_")]
    listed = [repr(row) for row in zip(*(found[name].to_pylist() for name in names), strict=True)]
    assert {*kinds} <= {*COMES, *GOES}
    return {
        what: Counter(row for row, kind in zip(listed, kinds, strict=True) if kind in those)
        for what, those in (("come", COMES), ("gone", GOES))
    }


CREATE = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, n DECIMAL(10, 2), what VARCHAR(20))",
    "CREATE TABLE bag (id INT, what VARCHAR(20))",
    "INSERT INTO keyed VALUES (1, 1, 'a'), (2, 2, NULL), (3, 3, 'c'), (4, NULL, 'd')",
    "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, NULL)",
)
BY_DELTA_RS = (
    "UPDATE keyed SET what = 'new' WHERE id = 1",
    "DELETE FROM keyed WHERE id = 2",
    "UPDATE keyed SET id = 30 WHERE id = 3",
    "INSERT INTO keyed VALUES (5, 5, 'e')",
    "DELETE FROM bag WHERE id = 1 LIMIT 1",
    "INSERT INTO bag VALUES (3, 'z')",
)
BY_SPARK = (
    "UPDATE keyed SET n = 4 WHERE id = 4",
    "DELETE FROM keyed WHERE id = 5",
    "INSERT INTO keyed VALUES (2, 2, 'again')",
    "DELETE FROM bag WHERE id = 2",
    "INSERT INTO bag VALUES (4, 'w')",
)
AGAIN = (
    "UPDATE keyed SET n = NULL WHERE id = 2",
    "DELETE FROM keyed WHERE id = 1",
    "UPDATE bag SET id = 5 WHERE id = 4",
)
BEFORE, AFTER = "update_preimage", "update_postimage"
KEYED: list[list[tuple[Any, ...]]] = [
    [("insert", 1, 1, "a"), ("insert", 2, 2, None), ("insert", 3, 3, "c"), ("insert", 4, None, "d")],
    [
        (BEFORE, 1, 1, "a"), (AFTER, 1, 1, "new"), ("delete", 2, 2, None), ("delete", 3, 3, "c"),
        ("insert", 30, 3, "c"), ("insert", 5, 5, "e"),
    ],
    [(BEFORE, 4, None, "d"), (AFTER, 4, 4, "d"), ("delete", 5, 5, "e"), ("insert", 2, 2, "again")],
    [(BEFORE, 2, 2, "again"), (AFTER, 2, None, "again"), ("delete", 1, 1, "new")],
]  # fmt: skip
BAG: list[list[tuple[Any, ...]]] = [
    [*[("insert", 1, "x")] * 3, ("insert", 2, None)],
    [*[("delete", 1, "x")] * 3, *[("insert", 1, "x")] * 2, ("insert", 3, "z")],
    [("delete", 2, None), ("insert", 4, "w")],
    [("delete", 4, "w"), ("insert", 5, "w")],
]


@pytest.mark.in_turn
@pytest.mark.integration
def test_spark_reads_the_feed(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Of a source's tables, with a key and without one, that delta-rs wrote, then Spark, then delta-rs: each row that
    changed, once, as it was before and after, and no other. delta-rs reads the same."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        sessions = shop.lake.sessions
        lake = Lake(shop.lake.lake.root, complete=True, layouts=Layouts(properties={"*": {CHANGE_FEED: "true"}}))
        by_delta_rs = replace(shop.lake, lake=lake, fence=Fence(lake, sessions))
        by_spark = replace(by_delta_rs, engine=Engine.SQL)
        for writer, statements in (
            (by_delta_rs, CREATE), (by_delta_rs, BY_DELTA_RS), (by_spark, BY_SPARK), (by_delta_rs, AGAIN),
        ):  # fmt: skip
            shop.lake = writer
            shop.execute(*statements)
            assert shop.drain() == []
        assert shop.differences("keyed", "bag") == {"keyed": (0, 0, 0), "bag": (0, 0, 0)}
        for name, expected in (("keyed", KEYED), ("bag", BAG)):
            path = lake.path(shop.database, name)
            with sessions.take() as spark:
                found = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0)
                there = found.load(path).toArrow()
            wanted = [Counter(batch) for batch in expected]
            assert list(by_version(there).values()) == wanted
            assert list(by_version(pa.table(DeltaTable(path).load_cdf(0).read_all())).values()) == wanted
            engines = {one["version"]: str(one.get("engineInfo")) for one in DeltaTable(path).history()}
            assert ["Spark" in engines[version] for version in by_version(there)] == [False, False, True, False]


def by_version(feed_of: pa.Table) -> dict[int, Counter[Any]]:
    """The feed's rows by the version of their commit, each with what happened to it before its columns."""
    names = [name for name in feed_of.column_names if not name.startswith("_")]
    columns = [feed_of.column(name).to_pylist() for name in ("_commit_version", "_change_type", *names)]
    found: dict[int, Counter[Any]] = {}
    for version, *row in sorted(zip(*columns, strict=True), key=lambda one: int(one[0])):
        found.setdefault(version, Counter())[tuple(row)] += 1
    return found
