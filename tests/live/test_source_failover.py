"""A lake over a source that fails over, merged by Spark, compared with the server that was promoted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from spark_jobs.lake.fence import Fence
from tests.support.failover import until
from tests.support.pair import FALLBACK, Pair
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration

NONE = (0, 0, 0)
by_gtid = pytest.mark.parametrize("pair", [True], indirect=True, ids=["gtid"])
by_place = pytest.mark.parametrize("pair", [False], indirect=True, ids=["place"])


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair.start(tmp_path / "pair", gtid=request.param)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def shop(pair: Pair, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    other = pair.replica
    keys = {
        "canal_instance_standby_address": f"{other.host}:{other.port}",
        "canal_instance_detecting_enable": "true",
        "canal_instance_detecting_interval_time": "1",
        "canal_instance_detecting_heartbeatHaEnable": "true",
        "canal_instance_fallbackIntervalInSeconds": str(FALLBACK),
        "canal_instance_gtidon": str(pair.gtid).lower(),
    }
    first = pair.master
    with opened_shop(first, spark_remote, tmp_path, **keys) as shop:
        try:
            yield shop
        finally:
            first.start()  # its database is dropped


def fail_over(shop: Shop, pair: Pair) -> tuple[str, int]:
    """Promotes the replica, which has everything; what comes next belongs to a new run."""
    pair.caught_up()
    place = pair.fail_over()
    shop.mysql = pair.master
    address = f"{pair.master.host}:{pair.master.port}"
    seconds = until(lambda: reads(shop, address))
    print(f"reads {address} after {seconds:.1f} s, a heartbeat being 1 s")
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    return place


def reads(shop: Shop, address: str) -> bool:
    told = shop.connector.status()
    return bool(told.source.address == address and told.state == "running")


def change(shop: Shop, number: int) -> None:
    """Inserts, updates and deletes rows whose keys and values name the round."""
    shop.execute(
        *(f"INSERT INTO a VALUES ({number * 100 + at}, {at})" for at in range(8)),
        f"UPDATE a SET v = v + 1000 WHERE id % 3 = {number % 3}",
        f"DELETE FROM a WHERE id % 7 = {number % 7}",
        f"INSERT INTO b VALUES ({number}, 'x'), ({number}, 'x'), (0, NULL)",
        "DELETE FROM b WHERE x = 0 LIMIT 1",
    )


def begun(shop: Shop, pause: float = 0.0) -> None:
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (x INT, y VARCHAR(9))")
    shop.execute("INSERT INTO a VALUES (0, 0)")  # reading begins again with the last transaction before a time
    time.sleep(pause)
    change(shop, 1)
    assert shop.drain() == []
    change(shop, 2)


@by_gtid
def test_the_lake_follows_to_the_standby_and_back(pair: Pair, shop: Shop) -> None:
    """Nothing comes twice, so tables without a key go on too. The page names the switch."""
    first = pair.master
    begun(shop)
    place = fail_over(shop, pair)
    change(shop, 3)
    assert shop.drain(batch_size=30) == []
    assert shop.differences("a", "b") == {"a": NONE, "b": NONE}
    page = httpx.get(f"{shop.connector.http_url}/").text
    assert "the standby" in page
    assert "Switched from" in page

    pair.join(place)
    change(shop, 4)
    fail_over(shop, pair)
    assert pair.master is first
    assert shop.drain() == []
    assert shop.differences("a", "b") == {"a": NONE, "b": NONE}


@pytest.mark.full
@by_gtid
def test_a_batch_that_was_applied_and_not_acked(pair: Pair, shop: Shop) -> None:
    """The batch comes again: a table with a key merges it once more, a table without one stops."""
    begun(shop)
    claim = shop.claim(owner="killed")
    shop.lake.apply(claim, "killed", 2, [])
    fail_over(shop, pair)
    change(shop, 3)
    assert shop.drain() == [f"{shop.database}.b"]
    assert shop.differences("a") == {"a": NONE}


@pytest.mark.in_turn(2)
@by_place
@pytest.mark.parametrize("made_again", [pytest.param(False, marks=pytest.mark.full), True])
def test_rows_come_again_without_gtids(pair: Pair, shop: Shop, *, made_again: bool) -> None:
    """Without GTIDs a table with a key stays right, and one without stops, until it is emptied or made again. Where its
    CREATE comes again with the rows, it stays right as well."""
    begun(shop, pause=0 if made_again else FALLBACK + 2)
    fail_over(shop, pair)
    change(shop, 3)
    assert shop.drain(batch_size=30) == ([] if made_again else [f"{shop.database}.b"])
    assert shop.differences("a") == {"a": NONE}
    if made_again:
        assert shop.differences("b") == {"b": NONE}
    for number, anew in enumerate((["TRUNCATE TABLE b"], ["DROP TABLE b", "CREATE TABLE b (x INT, y VARCHAR(9))"]), 4):
        shop.execute(*anew)
        change(shop, number)
        assert shop.drain(batch_size=30) == []
        change(shop, number + 2)
        assert shop.drain(batch_size=30) == []
        assert shop.differences("a", "b") == {"a": NONE, "b": NONE}
