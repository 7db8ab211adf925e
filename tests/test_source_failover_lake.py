"""A lake over a source that fails over: merged by a real Spark, compared with the server that was promoted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql import MySqlServer
from spark_jobs.fence import Fence
from tests.pair import Pair
from tests.test_failover import until
from tests.test_merge_live import Shop, opened_shop
from tests.test_source_failover import a_little_later

pytestmark = pytest.mark.integration

NONE = (0, 0, 0)


@pytest.fixture(params=[True, False], ids=["gtid", "place"])
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
        "canal_instance_fallbackIntervalInSeconds": "2",
        "canal_instance_gtidon": str(pair.gtid).lower(),
    }
    with opened_shop(pair.master, spark_remote, tmp_path, **keys) as shop:
        yield shop


def fail_over(shop: Shop, pair: Pair) -> tuple[str, int]:
    """All is at the replica, which is then read; what comes next is a new run's."""
    pair.caught_up()
    a_little_later(pair.replica)
    place = pair.fail_over()
    shop.mysql = pair.master
    address = f"{pair.master.host}:{pair.master.port}"
    seconds = until(lambda: reads(shop, address), 60)
    print(f"reads {address} after {seconds:.1f} s, a heartbeat being 1 s")
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    return place


def reads(shop: Shop, address: str) -> bool:
    told = shop.connector.status()
    return bool(told["source"]["address"] == address and told["state"] == "running")


def change(shop: Shop, number: int) -> None:
    """Rows come, change and go; their keys and values tell the round."""
    shop.execute(
        *(f"INSERT INTO a VALUES ({number * 100 + at}, {at})" for at in range(20)),
        f"UPDATE a SET v = v + 1000 WHERE id % 3 = {number % 3}",
        f"DELETE FROM a WHERE id % 7 = {number % 7}",
        f"INSERT INTO b VALUES ({number}, 'x'), ({number}, 'x'), (0, NULL)",
        "DELETE FROM b WHERE x = 0 LIMIT 1",
    )


def test_the_lake_follows_to_the_standby_and_back(pair: Pair, shop: Shop) -> None:
    """By GTID tables without a key go on too; by time they stop, and those with a key are right. A batch that was
    applied and not acked comes again: with a key it is merged once more, without one the table stops."""
    first, second = pair.master, pair.replica
    unkeyed = f"{shop.database}.b"
    shop.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (x INT, y VARCHAR(9))")
    change(shop, 1)
    assert shop.drain() == []
    change(shop, 2)
    place = fail_over(shop, pair)
    change(shop, 3)
    assert shop.drain(batch_size=30) == ([] if pair.gtid else [unkeyed])
    tables = ["a", "b"] if pair.gtid else ["a"]
    assert shop.differences(*tables) == dict.fromkeys(tables, NONE)

    pair.join(place)
    change(shop, 4)
    place = fail_over(shop, pair)
    assert pair.master is first
    change(shop, 5)
    assert shop.drain() == ([] if pair.gtid else [unkeyed])
    assert shop.differences(*tables) == dict.fromkeys(tables, NONE)

    pair.join(place)
    change(shop, 6)
    claim = shop.connector.get_without_ack(1000, owner="killed", timeout_seconds=30)
    assert claim is not None
    shop.lake.apply(claim, "killed", 2, [] if pair.gtid else [unkeyed])
    fail_over(shop, pair)
    change(shop, 7)
    assert shop.drain() == [unkeyed]
    assert shop.differences("a") == {"a": NONE}
    restart(pair.replica, second)


def restart(killed: MySqlServer, master: MySqlServer) -> None:
    """For the fixture, which drops its database where it made it."""
    assert killed is not master
    killed.start()
