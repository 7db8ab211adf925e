"""A snapshot while its source fails over, without Spark: it begins once more on the other server, and ends right."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cdc_core import config
from spark_jobs.load import groups, registration
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.limits import Limits
from tests.support.pair import FALLBACK, Pair
from tests.support.plain_lake import PlainLake, replacing
from tests.support.shop import Shop, opened_shop

pytestmark = [pytest.mark.integration, pytest.mark.full]

ROWS = 300


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair.start(tmp_path / "pair", gtid=True)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def shop(pair: Pair, tmp_path: Path) -> Iterator[Shop]:
    """Reads by GTID, with a standby. Its table `t` has rows with a key, `copies` without."""
    keys = {
        "canal_instance_standby_address": f"{pair.replica.host}:{pair.replica.port}",
        "canal_instance_detecting_enable": "true",
        "canal_instance_detecting_interval_time": "1",
        "canal_instance_detecting_heartbeatHaEnable": "true",
        "canal_instance_fallbackIntervalInSeconds": str(FALLBACK),
        "canal_instance_gtidon": "true",
    }
    first = pair.master
    with opened_shop(first, "sc://127.0.0.1:1", tmp_path, **keys) as shop:
        rows = ", ".join(f"({number}, 'old')" for number in range(ROWS))
        for table, key in (("t", " PRIMARY KEY"), ("copies", "")):
            shop.execute(f"CREATE TABLE {table} (a INT{key}, v VARCHAR(20))", f"INSERT INTO {table} VALUES {rows}")
        try:
            yield shop
        finally:
            first.start()  # its database is dropped


def test_it_begins_once_more_on_the_other_server(
    pair: Pair, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first server dies while a table is read, and rows change on either. Both tables, with
    a key and without, are as the new source's at the end."""
    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1)
    monkeypatch.setattr(registration, "LEASE_SECONDS", 5.0)
    lake = PlainLake(shop.connector, shop.lake.lake)
    instance, _ = config.load_instance(tmp_path / "conf", "shop")
    manner = Manner(30, Limits(connections=2), read_on="driver")
    taken = Loader(shop.connector, instance, lake.lake, lake.sessions, manner)

    def change(number: int) -> None:
        for table in ("t", "copies"):
            shop.execute(
                f"UPDATE {table} SET v = 'round {number}' WHERE a % 7 = {number}",
                f"DELETE FROM {table} WHERE a % 11 = {number}",
                f"INSERT INTO {table} VALUES ({ROWS + number}, 'new')",
            )

    def drain() -> None:
        lake.drain(1000, done=partial(shop.reached, shop.read()))

    def failed_over() -> None:
        change(1)
        drain()
        change(2)
        pair.caught_up()
        pair.fail_over()
        shop.mysql = pair.master
        address = f"{pair.master.host}:{pair.master.port}"
        until(lambda: reads(shop, address))
        change(3)

    once = iter([failed_over])
    with replacing():
        found = taken.table(shop.database, "t", report=at(4, lambda: [act() for act in once]))
        assert isinstance(found, Copied)
        change(4)
        drain()
        assert isinstance(taken.table(shop.database, "copies"), Copied)
        change(5)
        drain()
    assert shop.connector.client_status().stopped == ()
    assert shop.differences("t", "copies") == {"t": (0, 0, 0), "copies": (0, 0, 0)}


def at(chunks: int, then: Callable[[], object]) -> Callable[[Read], None]:
    """Does something when so many chunks are staged."""

    def told(read: Read) -> None:
        if read.chunks == chunks:
            then()

    return told


def reads(shop: Shop, address: str) -> bool:
    told = shop.connector.status()
    return bool(told.source.address == address and told.state == "running")


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
