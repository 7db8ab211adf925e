"""Logs that are all that is left, and logs that grow for long before they are merged."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.following.merged import Merged
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from tests.support.landed import LandedShop, changes, opened_landed

pytestmark = [pytest.mark.integration, pytest.mark.full]

BATCHES = int(os.environ.get("SLUICE_TEST_BATCHES", "100"))


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@pytest.mark.in_turn
def test_a_log_replayed_into_an_empty_lake_is_the_source(shop: LandedShop, tmp_path: Path) -> None:
    """With changes that came twice, after a rewind, and a TRUNCATE in the middle; some was merged before, and some was
    not."""
    rng = random.Random(2)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    places = []
    for step in range(6):
        shop.execute(*changes(rng, "t", 30))
        shop.land(rng.randint(1, 20))
        places.append(EntryPosition(*shop.mysql.position()))
        if step == 2:
            shop.follow()
        if step == 3:
            shop.execute("TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 'left', 1)")
        if step == 4:
            shop.reset(places[1])
    shop.execute(*changes(rng, "t", 30))
    shop.land(7)

    empty = Lake(tmp_path / "replayed")
    log = Path(empty.log_path(shop.database, "t"))
    shutil.copytree(shop.lake.lake.log_path(shop.database, "t"), log)
    merger = shop.merger()
    replace(merger, follows=replace(merger.follows, lake=empty)).whole(shop.named("t"))
    with shop.lake.sessions.take() as spark:
        rows: list[Any] = spark.read.format("delta").load(empty.path(shop.database, "t")).collect()
    assert Counter(tuple(row) for row in rows) == shop.source("t")
    shop.follow()
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
def test_a_table_that_waits_for_many_batches_catches_up(shop: LandedShop) -> None:
    """Each lands in a commit of its own. The other table goes on, and no batch is held up."""
    for table in ("bad", "good"):
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES (0, 0)")
    assert shop.land() == []
    shop.follow()
    path = shop.lake.lake.path(shop.database, "bad")
    with shop.lake.sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.{quote(path)} ADD CONSTRAINT small CHECK (n < 1)").collect()
    with shop.mysql.root(shop.database) as connection, connection.cursor() as cursor:
        for number in range(1, BATCHES + 1):
            cursor.execute(f"REPLACE INTO bad VALUES ({number % 97}, {number})")
            cursor.execute(f"REPLACE INTO good VALUES ({number % 97}, {number})")
            connection.commit()
    shop.run()
    before = shop.lake.lake.open(shop.lake.lake.log_path(shop.database, "bad")).version()
    assert shop.drain(2) == []
    log = shop.lake.lake.open(shop.lake.lake.log_path(shop.database, "bad"))
    assert log.version() - before >= BATCHES // 2
    assert [one.table for one in shop.follow() if isinstance(one, Merged)] == [shop.named("good")]
    assert {*shop.parking.tables()} == {shop.named("bad")}
    assert shop.now("bad") == shop.source("bad")
    assert shop.differences("good") == {"good": (0, 0, 0)}

    with shop.lake.sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.{quote(path)} DROP CONSTRAINT small").collect()
    assert all(isinstance(one, Merged) for one in shop.follow(parked=True))
    assert shop.parking.tables() == {}
    assert shop.differences("bad", "good") == {"bad": (0, 0, 0), "good": (0, 0, 0)}
