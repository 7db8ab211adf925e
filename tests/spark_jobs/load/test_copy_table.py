"""A table reloaded from a copy of the source, by the real parts: MySQL, the service, Spark, Delta."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import FORM, PROGRESS
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import Copied, LakeClient, NoSuchTable
from spark_jobs.load.view import copy_table
from spark_jobs.snapshot.source import Source
from tests.support.shop import Shop, opened_shop, reading_source

pytestmark = pytest.mark.integration


def copied(shop: Shop, table: str, **options: Any) -> Copied | NoSuchTable:
    """A copy as a run of its own makes it."""
    status = shop.connector.client_status()
    mysql, spark = shop.mysql, shop.lake
    source = Source(mysql.host, mysql.port, mysql.user, mysql.password)
    client = LakeClient("shop", status.client_id, status.epoch)
    fence = Fence(spark.lake, spark.sessions)
    return copy_table(source, Target(spark.lake, fence, client, shop.database, table), spark.sessions, **options)


def damage(shop: Shop, table: str) -> None:
    """Loses rows of the lake."""
    DeltaTable(shop.lake.lake.path(shop.database, table)).delete("id % 2 = 0")


@pytest.mark.in_turn
@pytest.mark.full
def test_a_damaged_table_is_reloaded_and_followed_on(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """With a key, without one, and with names that need column mapping: at rest, twice at one place, and afterwards.
    One that notes its progress in another form is copied by the run."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY COMMENT 'the key', v VARCHAR(20)) COMMENT 'a table'",
            "CREATE TABLE copies (id INT, v VARCHAR(20))",
            "CREATE TABLE odd (id INT PRIMARY KEY, `a b` INT, `c,d` VARCHAR(9))",
            "INSERT INTO keyed VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
            "INSERT INTO copies SELECT * FROM keyed",
            "INSERT INTO odd SELECT id, id, v FROM keyed",
        )
        assert shop.drain() == []
        for table in ("keyed", "copies"):
            damage(shop, table)
        for table in ("keyed", "copies", "odd"):
            for _ in range(2):
                found = copied(shop, table)
                assert isinstance(found, Copied)
                assert (found.rows, found.place.exact) == (4, True)
        same = dict.fromkeys(("keyed", "copies", "odd"), (0, 0, 0))
        assert shop.differences(*same) == same
        shop.execute(
            "INSERT INTO keyed VALUES (5, 'e')",
            "UPDATE keyed SET v = 'x' WHERE id = 2",
            "DELETE FROM copies WHERE id = 2",
            "INSERT INTO copies VALUES (7, 'y'), (7, 'y')",
            "UPDATE odd SET `a b` = 9 WHERE id = 3",
        )
        assert shop.drain() == []
        assert shop.differences(*same) == same
        made = DeltaTable(shop.lake.lake.path(shop.database, "keyed"))
        assert made.metadata().description == "a table"
        assert {field.name: field.metadata.get("comment") for field in made.schema().fields} == {
            "id": "the key",
            "v": None,
        }
        assert isinstance(copied(shop, "nowhere"), NoSuchTable)
        made.alter.set_table_properties({PROGRESS: "0"}, raise_if_not_exists=False)  # of another version of Sluice
        shop.execute("INSERT INTO keyed VALUES (6, 'f')")
        with reading_source(shop) as reading:  # a run of its own, because copies have fenced the table since
            fence = Fence(reading.lake.lake, reading.lake.sessions)
            assert replace(reading, lake=replace(reading.lake, fence=fence)).drain() == []
        assert shop.differences(*same) == same
        assert DeltaTable(made.table_uri).metadata().configuration[PROGRESS] == FORM
