"""Change logs maintained by `LogUpkeep`, while runs land and merge: a real MySQL, a real service and Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.errors import TableStopped
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.changes.columns import VERSION
from spark_jobs.following.now import refresh_view
from spark_jobs.landing import append as appending
from spark_jobs.landing.modes import Mode
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained
from tests.support.landed import LandedShop, opened_landed

pytestmark = pytest.mark.integration
WEEK = 168


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


def moment() -> float:
    """Now, apart from what was before and what comes."""
    time.sleep(1.2)
    now = time.time()
    time.sleep(1.2)
    return now


def maintained(
    shop: LandedShop, then: float, table: str = "t", *, alone: bool = False, hours: int = WEEK
) -> Maintained:
    """A week and a second after `then`: what was before it is a week old."""
    upkeep = LogUpkeep(shop.follows, lambda: then + WEEK * 3600)
    return upkeep.log(shop.named(table), Retention(hours, alone))


def log_of(shop: LandedShop, table: str = "t") -> DeltaTable:
    return shop.lake.lake.open(shop.follows.log_path(shop.named(table)))


def versions(shop: LandedShop, table: str = "t") -> list[int]:
    return sorted(pa.table(log_of(shop, table).to_pyarrow_table()).column(VERSION).to_pylist())


@pytest.mark.in_turn
@pytest.mark.full
def test_what_the_table_had_for_a_week_goes(shop: LandedShop) -> None:
    """What it had not then stays, merged since or not. Ends, merges and the view stay right, with a rewind as well."""
    begun = shop.read()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1")  # landed before, and not merged then
    shop.land()
    then = moment()
    shop.merger().whole(shop.named("t"))
    shop.execute("INSERT INTO t VALUES (3, 'c')")
    shop.land()
    before, end = versions(shop), log_of(shop).transaction_version(f"sluice:shop:1001:{shop.named('t')}:log:0")
    assert len(before) == 5

    found = maintained(shop, then)

    assert (found.left, found.rows_deleted, found.rows_kept) == ("", 2, "")
    assert versions(shop) == before[2:]
    assert log_of(shop).transaction_version(f"sluice:shop:1001:{shop.named('t')}:log:0") == end
    assert maintained(shop, then).rows_deleted == 0
    assert shop.now("t") == shop.source("t")
    shop.execute("DELETE FROM t WHERE id = 2")
    assert shop.land() == []
    assert shop.now("t") == shop.source("t")
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}
    shop.reset(begun)
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    assert shop.now("t") == shop.source("t") == shop.merged("t")


@pytest.mark.in_turn
@pytest.mark.full
def test_a_view_of_before_these_rows_is_rebuilt_first(shop: LandedShop) -> None:
    """It reads an earlier version of the table, and what went is not there: without a view the rows stay."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    assert shop.now("t") == shop.source("t")
    shop.execute("INSERT INTO t VALUES (2, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    then = moment()
    upkeep = LogUpkeep(shop.follows, lambda: then + WEEK * 3600, lambda _: "its view was not changed")
    found = upkeep.log(shop.named("t"), Retention(WEEK))
    assert (found.rows_deleted, found.rows_kept) == (0, "its view was not changed, and may read rows that would go")
    makes = replace(upkeep, view=partial(refresh_view, shop.lake.sessions, shop.follows))
    assert makes.log(shop.named("t"), Retention(WEEK)).rows_deleted == 2
    assert shop.now("t", anew=False) == shop.source("t")


def test_a_time_in_the_future_keeps_nothing(shop: LandedShop) -> None:
    """A session set it. The row is as old as its batch, however long that time is away."""
    ahead = [
        "SET TIMESTAMP = UNIX_TIMESTAMP() + 86400 * 900",
        "INSERT INTO t VALUES (1, 'a')",
        "SET TIMESTAMP = DEFAULT",
    ]
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", *ahead, "INSERT INTO t VALUES (2, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    then = moment()
    assert maintained(shop, then - 30, hours=WEEK).rows_deleted == 0
    assert maintained(shop, then).rows_deleted == 2
    assert versions(shop) == []


@pytest.mark.in_turn
@pytest.mark.full
def test_what_waits_to_be_merged_stays(shop: LandedShop) -> None:
    """However old it is: of a table that waits after a failure, and of one that was never merged."""
    for table in ("t", "never"):
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(20))")
        shop.execute(f"INSERT INTO {table} VALUES (1, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    for number in (2, 3):
        shop.execute(f"INSERT INTO t VALUES ({number}, 'a')")
        shop.land()
    then = moment()
    assert maintained(shop, then).rows_deleted == 1
    assert maintained(shop, then, "never").rows_deleted == 0
    shop.merger().whole(shop.named("t"))
    shop.merger().whole(shop.named("never"))
    assert shop.differences("t", "never") == {"t": (0, 0, 0), "never": (0, 0, 0)}


def test_a_log_alone_loses_rows_only_where_it_is_said(shop: LandedShop) -> None:
    """A table that is to follow it again afterwards learns what it lacks, and does not go on as if nothing were
    missing."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    shop.run(Mode.APPEND)
    shop.execute("INSERT INTO t VALUES (2, 'b')")
    assert shop.drain() == []
    then = moment()
    shop.execute("INSERT INTO t VALUES (3, 'c')")
    assert shop.drain() == []
    assert maintained(shop, then).rows_deleted == 1
    assert maintained(shop, then, alone=True).rows_deleted == 1
    assert len(versions(shop)) == 1

    with pytest.raises(TableStopped, match="is complete only after version"):
        shop.merger().whole(shop.named("t"))


@pytest.mark.in_turn
def test_an_append_that_meets_a_deletion_is_done_again(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same run, and once: delta-rs refuses the one that was under way."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a')")
    shop.land()
    shop.merger().whole(shop.named("t"))
    then, real, deleted = moment(), appending.write_deltalake, list[int]()

    def write(*args: Any, **kwargs: Any) -> None:
        if not deleted:
            deleted.append(maintained(shop, then).rows_deleted)
        real(*args, **kwargs)

    monkeypatch.setattr(appending, "write_deltalake", write)
    shop.execute("UPDATE t SET v = 'b'")
    assert shop.land() == []
    assert deleted == [1]
    assert len(versions(shop)) == 2
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.full
def test_a_table_younger_than_a_week_keeps_its_log(shop: LandedShop) -> None:
    """So does one that is kept for longer."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a')")
    then = moment()
    shop.land()
    shop.merger().whole(shop.named("t"))
    assert maintained(shop, then).rows_deleted == 0
    assert maintained(shop, moment(), hours=10 * WEEK).rows_deleted == 0
    assert maintained(shop, moment()).rows_deleted == 1
