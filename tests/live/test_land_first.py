"""Changes land, and tables follow from their logs, from MySQL to Delta by the real parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.cascade import Cascades
from spark_jobs.following.catch_up import CatchUp
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.landing.parked import Parked, Parking
from spark_jobs.verify.comparer import TableComparer, compared
from tests.support.copying import loader_of
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import briefly, source_of

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
    outcomes = list(
        Follow(
            Works(merger, lambda _: False), parking(shop), lambda: lake.logs("shop"), FollowOptions(2, 300.0, 0.0)
        ).run()
    )
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


@pytest.mark.in_turn
def test_a_table_follows_its_log_whatever_the_mode(shop: Shop) -> None:
    """Landed, merged, and landed again, with a statement in between: each finds the log merged. Also a table without a
    key. Nothing differs from the source."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "CREATE TABLE bare (a INT)")
    write(shop, 1000)
    shop.execute("INSERT INTO bare VALUES (1), (1), (2)")
    assert shop.drain(40) == []
    write(shop, 2000)
    run(shop, Mode.MERGE)
    shop.execute("DELETE FROM bare WHERE a = 1 LIMIT 1")
    assert shop.drain() == []
    run(shop, Mode.LAND_FIRST)
    write(shop, 3000)
    shop.execute("UPDATE bare SET a = 2", "ALTER TABLE bare ADD COLUMN b INT DEFAULT 3", "DELETE FROM bare LIMIT 1")
    shop.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    write(shop, 4000)
    assert shop.drain() == []
    follow(shop)
    assert shop.differences("t", "bare") == {"t": (0, 0, 0), "bare": (0, 0, 0)}


@pytest.mark.in_turn
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


def test_tables_that_are_merged_again_have_their_whole_log(shop: Shop) -> None:
    """Also one that has no further changes: another table's batch is enough."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "CREATE TABLE other (id INT PRIMARY KEY)")
    write(shop, 1000)
    assert shop.drain() == []
    run(shop, Mode.MERGE)
    shop.execute("INSERT INTO other VALUES (1)")
    assert shop.drain() == []
    assert shop.differences("t", "other") == {"t": (0, 0, 0), "other": (0, 0, 0)}


def test_a_source_table_with_the_name_of_a_log(shop: Shop) -> None:
    """Where nothing lands it is a table as any other, and so is the one whose log it seems to be."""
    run(shop, Mode.MERGE)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "CREATE TABLE t__log (id INT PRIMARY KEY)")
    write(shop, 1000)
    shop.execute("INSERT INTO t__log VALUES (1), (2)")
    assert shop.drain() == []
    shop.execute("ALTER TABLE t ADD COLUMN w INT", "INSERT INTO t VALUES (1, 'x', 2)", "INSERT INTO t__log VALUES (3)")
    assert shop.drain() == []
    assert shop.differences("t", "t__log") == {"t": (0, 0, 0), "t__log": (0, 0, 0)}
    beside = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=600, sleep=briefly)
    found = list(compared(beside, [(shop.database, "t"), (shop.database, "t__log")]))
    assert [(one.differences, one.error) for one in found] == [(0, ""), (0, "")]


@pytest.mark.in_turn
@pytest.mark.parametrize("later", [Mode.LAND_FIRST, Mode.MERGE])
def test_a_table_that_only_landed_while_a_statement_came_is_copied_first(
    shop: Shop, tmp_path: Path, later: Mode
) -> None:
    """Its log goes on, and the merged table would not show what the statement did. One that was renamed meanwhile has
    its rows in another log; a table that was emptied, or got an index, shows it by its log."""
    tables = ("t", "named", "emptied", "indexed")
    shop.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(200))" for name in tables))
    shop.execute(*(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')" for name in tables))
    assert shop.drain() == []
    follow(shop)
    run(shop, Mode.APPEND)
    shop.execute(*(f"UPDATE {name} SET v = 'c' WHERE id = 2" for name in tables))
    assert shop.drain() == []
    shop.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 7", "RENAME TABLE named TO renamed", "TRUNCATE emptied")
    shop.execute("ALTER TABLE indexed ADD INDEX (v)")
    now = ("t", "renamed", "emptied", "indexed")
    shop.execute(*(f"INSERT INTO {name} (id, v) VALUES (3, 'd')" for name in now))
    assert shop.drain() == []
    run(shop, later)
    shop.execute(*(f"INSERT INTO {name} (id, v) VALUES (4, 'e')" for name in now))
    wrong = {f"{shop.database}.{name}" for name in ("t", "renamed")}
    if later is Mode.MERGE:
        assert {*shop.drain()} == wrong
    else:
        assert shop.drain() == []
        follows = Follows(shop.lake.lake, "shop", shop.connector.client_id)
        merger = Merger(follows, shop.lake.sessions, Fence(shop.lake.lake, shop.lake.sessions), "follow")
        works, pace = Works(merger, lambda _: False), FollowOptions(2, 300.0, 0.0)
        outcomes = list(Follow(works, parking(shop), lambda: shop.lake.lake.logs("shop"), pace).run())
        assert {one.table for one in outcomes if isinstance(one, Parked)} == wrong
    same = dict.fromkeys(("emptied", "indexed"), (0, 0, 0))
    assert shop.differences(*same) == same
    loader = loader_of(shop, tmp_path / "conf")
    for name in ("t", "renamed"):
        loader.copy(shop.database, name)
    assert shop.drain() == []
    follow(shop)
    same = dict.fromkeys(now, (0, 0, 0))
    assert shop.differences(*same) == same
    with shop.lake.sessions.take() as spark:
        assert spark.read.format("delta").load(shop.lake.lake.path(shop.database, "named")).isEmpty()


@pytest.mark.in_turn
def test_a_table_that_cannot_land_follows_statements_where_others_only_land(shop: Shop) -> None:
    """It is merged all the same, so it has new columns in old rows, and no rows of before a TRUNCATE."""
    run(shop, Mode.APPEND)
    shop.execute("CREATE TABLE bare (`an a` INT, b INT)", "INSERT INTO bare VALUES (1, 1), (1, 1), (2, 2)")
    assert shop.drain() == []
    shop.execute("ALTER TABLE bare ADD COLUMN c INT DEFAULT 7", "INSERT INTO bare VALUES (3, 3, 3)")
    assert shop.drain() == []
    assert shop.differences("bare") == {"bare": (0, 0, 0)}
    shop.execute("TRUNCATE bare", "INSERT INTO bare VALUES (4, 4, 4)")
    assert shop.drain() == []
    assert shop.differences("bare") == {"bare": (0, 0, 0)}


def test_a_table_that_is_replaced_while_it_only_lands(mariadb: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """CREATE OR REPLACE is one statement: the rows of before it are gone in the table that is made of the log later."""
    with opened_shop(mariadb, spark_remote, tmp_path) as shop:
        run(shop, Mode.APPEND)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        assert shop.drain() == []
        shop.execute("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "INSERT INTO t VALUES (3, 'c')")
        assert shop.drain() == []
        run(shop, Mode.LAND_FIRST)
        follow(shop)
        assert shop.differences("t") == {"t": (0, 0, 0)}
