"""Tables kept in the order of their key by `Upkeep`, against a real MySQL, a real service and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.maintain.key_order import KeyOrder, Reorder
from spark_jobs.maintain.slices import RewriteLimits
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.write import ready, vectors
from tests.support.landed import Killed, dies
from tests.support.marks import tiers
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import app_of

pytestmark = pytest.mark.integration
RIGHT = {"t": (0, 0, 0)}
SCATTERED = 12  # files
LIMITS = RewriteLimits(ordered=1, least=1, step=30_000, small=1, file=8_000)


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@pytest.fixture(autouse=True)
def by_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is written as a large one is: by Spark's statements, with deletion vectors."""
    monkeypatch.setattr(ready, "form_of", lambda *_: None)
    monkeypatch.setattr(vectors, "MOST_BYTES", -1)
    monkeypatch.setattr(vectors, "LARGE_SHARE", 1.0)


def path_of(shop: Shop) -> str:
    return shop.lake.lake.path(shop.database, "t")


def upkeep(shop: Shop, limits: RewriteLimits = LIMITS) -> Upkeep:
    return Upkeep(shop.connector, shop.lake.lake, shop.lake.sessions, quiet_seconds=0, limits=limits)


def scattered(shop: Shop, key: str, rows: str) -> None:
    """Table `t`, its rows all over twelve files. `rows` is a SELECT over `n`, the numbers from 0 to 3,999."""
    some = [f"(SELECT {' UNION SELECT '.join(map(str, range(count)))})" for count in (10, 10, 10, 4)]
    ones, tens, hundreds, thousands = (f"{one} AS {name} (d)" for one, name in zip(some, "abce", strict=True))
    summed = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d"
    numbers = f"(SELECT {summed} AS n FROM {ones}, {tens}, {hundreds}, {thousands}) numbers"
    shop.execute(f"CREATE TABLE t ({key}, v VARCHAR(80))", f"INSERT INTO t SELECT {rows} FROM {numbers}")
    assert shop.drain(10_000) == []
    with shop.lake.sessions.take() as spark:
        there = spark.read.format("delta").load(path_of(shop)).repartition(SCATTERED)
        there.write.format("delta").mode("overwrite").save(path_of(shop))


def by_id(shop: Shop) -> None:
    scattered(shop, "id INT PRIMARY KEY", "n, SHA2(n, 256)")


def touched(shop: Shop, low: int, high: int) -> int:
    """The files that a MERGE of updates of these keys met."""
    shop.execute(f"UPDATE t SET v = CONCAT('new', id) WHERE id BETWEEN {low} AND {high}")
    assert shop.drain() == []
    commit = next(shop.lake.lake.commits(path_of(shop)))
    assert commit.count("numTargetRowsUpdated") == high - low + 1
    kinds = ("FilesRemoved", "DeletionVectorsAdded", "DeletionVectorsUpdated")
    return sum(commit.count(f"numTarget{kind}") for kind in kinds)


def names(shop: Shop) -> set[str]:
    return {str(name) for name in shop.lake.lake.open(path_of(shop)).file_uris()}


@pytest.mark.in_turn
@pytest.mark.full
def test_a_merge_meets_few_files_once_the_table_is_in_order(shop: Shop) -> None:
    """No row, property or txnVersion changes; a table in order is left alone, and what comes later is right."""
    by_id(shop)
    assert touched(shop, 100, 199) == SCATTERED
    lake, app = shop.lake.lake, app_of(shop, "t")
    before = lake.state(path_of(shop), app)
    found = upkeep(shop).table(shop.database, "t")
    after = lake.state(path_of(shop), app)
    assert before is not None
    assert after is not None
    assert (after.applied, after.properties) == (before.applied, before.properties)
    assert found.ordered is not None
    assert (found.compacted, found.ordered.ranges > 1) == (True, True)
    assert (found.ordered.depth_before > 10, found.ordered.depth_after) == (True, 1.0)
    assert {"depth_before", "depth_after", "ranges_ordered", "bytes_ordered"} <= found.to_dict().keys()
    assert shop.differences("t") == RIGHT

    files = names(shop)
    again = upkeep(shop).table(shop.database, "t")
    assert again.ordered is not None
    assert (again.compacted, again.ordered.ranges, names(shop)) == (False, 0, files)
    assert touched(shop, 1000, 1099) <= 2
    shop.execute("INSERT INTO t VALUES (5000, 'last')", "DELETE FROM t WHERE id % 7 = 0")
    assert shop.drain(10_000) == []
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
def test_only_a_large_table_is_put_in_order(shop: Shop) -> None:
    """By its bytes, without a key of the configuration."""
    by_id(shop)
    found = upkeep(shop, replace(LIMITS, ordered=2**30)).table(shop.database, "t")
    assert (found.compacted, found.ordered, len(names(shop))) == (False, None, SCATTERED)


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("a TINYINT, b VARCHAR(20), PRIMARY KEY (a, b)", "n % 3, CONCAT('it''s ', n), n"),
        ("id BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615 - n, n"),
        ("id DATETIME(6) PRIMARY KEY", "TIMESTAMP('2024-01-01') + INTERVAL n SECOND, n"),
        ("id CHAR(40) PRIMARY KEY", "SHA1(n), n"),
        ("d DATE, id BIGINT UNSIGNED, PRIMARY KEY (d, id)", "DATE('2024-01-01') + INTERVAL n % 400 DAY, n, n"),
        ("`the id` INT PRIMARY KEY", "n, n"),
    ],
)
def test_keys_of_other_kinds(shop: Shop, key: str, rows: str) -> None:
    """Rows stay as they are; once in order the table is left alone. A key whose bounds SQL cannot spell, or whose
    statistics are not there, is compacted as a small table is."""
    scattered(shop, key, rows)
    found = upkeep(shop).table(shop.database, "t")
    assert shop.differences("t") == RIGHT
    files = names(shop)
    again = upkeep(shop).table(shop.database, "t")
    assert (again.ordered is None) == (found.ordered is None)
    assert "the id" in key or (found.ordered is None) == ("DATETIME" in key)
    assert (again.compacted, names(shop)) == (False, files)


@pytest.mark.in_turn(2)
@pytest.mark.full
@pytest.mark.parametrize("behind", tiers([True], turns=[False]))
def test_killed_in_the_middle_it_is_done_again(shop: Shop, monkeypatch: pytest.MonkeyPatch, behind: bool) -> None:
    """What was written stays, and the rest follows."""
    by_id(shop)
    with monkeypatch.context() as patch:
        real, calls = Reorder.__call__, list[Reorder]()

        def counted(work: Reorder) -> bool:
            calls.append(work)
            if len(calls) == 2:
                dies(patch, KeyOrder, "rewrite", behind=behind)
            return real(work)

        patch.setattr(Reorder, "__call__", counted)
        with pytest.raises(Killed):
            upkeep(shop).table(shop.database, "t")
    assert shop.differences("t") == RIGHT
    found = upkeep(shop).table(shop.database, "t")
    assert found.ordered is not None
    assert (found.ordered.ranges > 0, found.ordered.depth_after) == (True, 1.0)
    assert shop.differences("t") == RIGHT
