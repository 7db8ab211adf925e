"""Tables that leave the filter and come back, with a real server, service and lake, and without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from cdc_core import config
from orchestration.first_rows import waiting
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.result import Copied
from tests.support.plain_lake import PlainLake, replacing
from tests.support.shop import Shop, opened_shop, until_running

pytestmark = pytest.mark.integration

TABLES = ("kept", "keyed", "copies")
EQUAL = dict.fromkeys(TABLES, (0, 0, 0))


@dataclass
class Filtered:
    """A shop whose filter changes, and its lake."""

    shop: Shop
    conf: Path

    @property
    def lake(self) -> PlainLake:
        return PlainLake(self.shop.connector, self.shop.lake.lake)

    def capture(self, *tables: str) -> None:
        """Has the destination capture these tables alone, from its cursor on."""
        connector, file = self.shop.connector, self.conf / "shop" / "instance.properties"
        connector.by_hand.stop()
        regex = ",".join(f"{self.shop.database}\\\\.{table}" for table in tables)
        with file.open("a") as lines:
            lines.write(f"canal.instance.filter.regex = {regex}\n")
        connector.by_hand.start()
        until_running(connector)

    def drain(self) -> None:
        self.lake.drain(1000, done=partial(self.shop.reached, self.shop.read()))

    def change(self, number: int) -> None:
        """An update, a delete and an insert of each table."""
        for table in TABLES:
            self.shop.execute(
                f"UPDATE {table} SET v = {number} WHERE a = {number}",
                f"DELETE FROM {table} WHERE a = {number + 10}",
                f"INSERT INTO {table} VALUES ({number + 100}, {number})",
            )

    def remedy(self) -> list[str]:
        """What the sensor of `snapshot: initial` starts, done here. The names of the tables."""
        due = waiting(self.shop.connector.client_status(), time.time(), complete=False)
        instance, _ = config.load_instance(self.conf, "shop")
        snapshots = Loader(self.shop.connector, instance, self.lake.lake, self.lake.sessions, Manner(read_on="driver"))
        names = [name.partition(".")[2] for name in due]
        with replacing():
            for name in names:
                assert isinstance(snapshots.table(self.shop.database, name), Copied)
        return names


@pytest.fixture
def filtered(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Filtered]:
    with opened_shop(mysql8, "sc://127.0.0.1:1", tmp_path) as shop:
        rows = ", ".join(f"({number}, 0)" for number in range(30))
        for table in TABLES:
            key = "" if table == "copies" else " PRIMARY KEY"
            shop.execute(f"CREATE TABLE {table} (a INT{key}, v INT)", f"INSERT INTO {table} VALUES {rows}")
        yield Filtered(shop, tmp_path / "conf")


def test_what_changed_outside_the_filter_is_not_missed(filtered: Filtered) -> None:
    """The tables that come back wait for a copy, and are right after it; the one that stayed goes on."""
    shop = filtered.shop
    filtered.drain()
    filtered.capture("kept")
    filtered.change(1)
    filtered.drain()
    filtered.change(2)
    filtered.capture(".*")
    filtered.change(3)
    filtered.drain()
    assert shop.differences("kept") == {"kept": (0, 0, 0)}

    assert filtered.remedy() == ["copies", "keyed"]
    filtered.change(4)
    filtered.drain()
    assert shop.connector.client_status().stopped == ()
    assert shop.differences(*TABLES) == EQUAL
