"""Changes land, and tables follow from their logs, from MySQL to Delta by the real parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.cascade import Cascades
from spark_jobs.following.catch_up import CatchUp
from spark_jobs.following.follow import Follow, Pace
from spark_jobs.following.merge import Merger
from spark_jobs.following.parked import Parked, Parking
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from tests.support.shop import Shop, opened_shop

pytestmark = [pytest.mark.integration, pytest.mark.full]


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as one:
        run(one, Mode.LAND_FIRST)
        yield one


def parking(shop: Shop) -> Parking:
    return Parking(shop.lake.lake, "shop", shop.connector.client_id)


def run(shop: Shop, mode: Mode, cascades: Cascades | None = None) -> None:
    """A new run, of another mode perhaps."""
    lake = shop.lake
    fence, known = Fence(lake.lake, lake.sessions), CatchUp(parking(shop))
    shop.lake = replace(lake, modes=Modes(mode), notes=Notes(), fence=fence, catch_up=known, cascades=cascades)


def follow(shop: Shop) -> None:
    """One run over all logs, until nothing is left."""
    lake = shop.lake.lake
    follows = Follows(lake, "shop", shop.connector.client_id)
    merger = Merger(follows, shop.lake.sessions, Fence(lake, shop.lake.sessions), "follow")
    outcomes = list(Follow(merger, parking(shop), lambda: lake.logs("shop"), Pace(2, 300.0, 0.0)).run())
    assert not [one for one in outcomes if isinstance(one, Parked)], outcomes


def write(shop: Shop, low: int) -> None:
    """Inserts, updates, deletes and a changed key."""
    values = ", ".join(f"({low + n}, 'v{n}')" for n in range(20))
    shop.execute(
        f"INSERT INTO t (id, v) VALUES {values}",
        "UPDATE t SET v = CONCAT(v, '+') WHERE id % 3 = 0",
        f"DELETE FROM t WHERE id % 7 = {low % 7}",
        f"UPDATE t SET id = id + 500000 WHERE id = {low + 5}",
    )


def test_a_table_follows_its_log_whatever_the_mode(shop: Shop) -> None:
    """Landed, merged, and landed again, with a statement in between: each finds the log merged. A table without a key
    is merged meanwhile. Nothing differs from the source."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "CREATE TABLE bare (a INT)")
    write(shop, 1000)
    shop.execute("INSERT INTO bare VALUES (1), (1), (2)")
    assert shop.drain(40) == []
    write(shop, 2000)
    run(shop, Mode.MERGE)
    assert shop.drain() == []
    run(shop, Mode.LAND_FIRST)
    write(shop, 3000)
    shop.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    write(shop, 4000)
    assert shop.drain() == []
    follow(shop)
    assert shop.differences("t", "bare") == {"t": (0, 0, 0), "bare": (0, 0, 0)}


def test_statements_and_images_that_a_log_cannot_take(shop: Shop) -> None:
    """A column of another type, all rows deleted, and images that leave columns out."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200), w INT DEFAULT 7)")
    write(shop, 1000)
    shop.execute("ALTER TABLE t MODIFY COLUMN w BIGINT", "UPDATE t SET w = 1099511627776 WHERE id % 5 = 0")
    assert shop.drain() == []
    shop.execute("TRUNCATE TABLE t")
    write(shop, 2000)
    assert shop.drain() == []
    run(shop, Mode.LAND_FIRST)
    shop.execute("SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET v = 'm' WHERE id % 4 = 0")
    assert shop.drain() == []
    write(shop, 3000)
    run(shop, Mode.LAND_FIRST)
    assert shop.drain() == []
    follow(shop)
    assert shop.differences("t") == {"t": (0, 0, 0)}
