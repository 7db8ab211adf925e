"""Changes land in logs and are merged from there, at any moment and killed at any step: the tables are the source's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.errors import LakeError, TableStopped
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.changes import in_order
from spark_jobs.following import ready as preparing
from spark_jobs.following.merged import Merged
from spark_jobs.following.ready import PartPreparer
from spark_jobs.lake.sql import quote
from spark_jobs.lake.transaction import transaction
from spark_jobs.write import by_statement
from spark_jobs.write.by_statement import StatementWriter
from spark_jobs.write.sorted_images import SortedImages
from spark_jobs.write.transaction import run_statement
from tests.support.landed import Killed, LandedShop, changes, dies, opened_landed

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@pytest.mark.in_turn
@pytest.mark.full
def test_random_changes_merged_at_random_moments_are_the_source(shop: LandedShop) -> None:
    """Claims of any size; key changes, deletes and inserts of the same key. The view is the source at each moment, the
    merged table when all is merged."""
    rng = random.Random(5)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    shop.land()
    for _ in range(8):
        shop.execute(*changes(rng, "t"))
        shop.land(rng.choice([1, 3, 1000]))
        if rng.random() < 0.4:
            shop.merger().next(shop.named("t"))
        assert shop.now("t") == shop.source("t")
    merged = shop.merger().whole(shop.named("t"))

    assert shop.differences("t") == {"t": (0, 0, 0)}
    assert shop.merger().follows.pending(shop.named("t")) is None
    assert not shop.merger().whole(shop.named("t"))
    assert not merged.contradiction


KINDS = (
    "id INT PRIMARY KEY, g POINT, j JSON, b VARBINARY(20), dt DATETIME(6), ts TIMESTAMP(3) NULL, ti TIME(6), y YEAR, "
    "f FLOAT, e ENUM('a', 'b'), s SET('x', 'y'), de DECIMAL(30, 10), bi BIT(9), u BIGINT UNSIGNED, c CHAR(5)"
)
VALUES = (
    """POINT(1, -0.0e0), '{"a": [1, 1.0, null]}', x'00ff', '2024-01-01 00:00:00.000001', '2024-03-31 02:30:00.123', """
    "'-838:59:59', 2024, 1.1, 'a', 'x,y', 12345678901234567890.0123456789, b'101010101', 18446744073709551615, 'e'"
)


@pytest.mark.in_turn
def test_values_of_every_kind_come_by_the_log(shop: LandedShop) -> None:
    """Also after a geometry, and when the source has it no more."""
    shop.execute(f"CREATE TABLE t ({KINDS})", f"INSERT INTO t VALUES (1, {VALUES})", "INSERT INTO t (id) VALUES (2)")
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}

    shop.execute("UPDATE t SET e = 'b'", "ALTER TABLE t DROP COLUMN g", "INSERT INTO t (id, u) VALUES (3, 4)")
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_a_backlog_becomes_several_commits(shop: LandedShop) -> None:
    """Each part ends where a file of the log ends, and none is larger than it must be."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    shop.land()
    for number in range(5):
        shop.execute(*(f"REPLACE INTO t VALUES ({row}, '{number}', {number})" for row in range(number, number + 4)))
        shop.land()

    merged = shop.merger(part_rows=6).whole(shop.named("t"))

    assert merged.parts >= 3
    assert shop.differences("t") == {"t": (0, 0, 0)}


STEPS: tuple[tuple[Any, str, bool], ...] = (  # after a step is before the next one
    (PartPreparer, "_entered", False),
    (preparing, "prepare", False),
    (by_statement, "statement", False),
    (by_statement, "run_statement", False),
    (by_statement, "run_statement", True),
    (StatementWriter, "committed", True),
)


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_killed_at_any_step_it_is_done_again(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after each step, the first merge and later ones. In the middle a second epoch begins with rows
    that the table has."""
    rng, begun = random.Random(11), shop.read()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    shop.land()
    for owner, step, behind in STEPS:
        shop.execute(*changes(rng, "t"))
        shop.land()
        with monkeypatch.context() as patch:
            dies(patch, owner, step, behind=behind)
            with pytest.raises(Killed):
                shop.merger().whole(shop.named("t"))
        if rng.random() < 0.5:
            shop.execute(*changes(rng, "t"))
            shop.land()
        shop.merger().whole(shop.named("t"))
        assert shop.now("t") == shop.source("t") == shop.merged("t"), (step, behind)
        if step == "prepare":
            shop.execute(*changes(rng, "t"))
            shop.land()
            shop.reset(begun)
            shop.land(5)


@pytest.mark.parametrize("reads_log", [False, True])
def test_a_statement_of_a_dead_run_changes_nothing(
    shop: LandedShop, monkeypatch: pytest.MonkeyPatch, reads_log: bool
) -> None:
    """It is sent when the next run is through, which had more to merge. Spark has the rows, or reads the log."""
    if reads_log:
        monkeypatch.setattr(in_order, "MOST_BYTES", 0)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    shop.execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1)")
    shop.land()
    late: list[tuple[Any, ...]] = []
    views: list[tuple[SortedImages, str]] = []
    real = run_statement

    def seen(self: SortedImages, spark: Any, view: str) -> None:
        views.append((self, view))
        create(self, spark, view)

    create = SortedImages.create_view

    def keep(spark: Any, statement: str, path: str) -> None:
        late.append((statement, path, spark.conf.get("spark.databricks.delta.write.txnAppId"),
                     spark.conf.get("spark.databricks.delta.write.txnVersion")))  # fmt: skip
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(by_statement, "run_statement", keep)
        patch.setattr(SortedImages, "create_view", seen)
        with pytest.raises(Killed):
            shop.merger().whole(shop.named("t"))
    assert len(views) == (0 if reads_log else 1)
    shop.execute("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'b'")
    shop.land()
    shop.merger().whole(shop.named("t"))
    statement, path, app, version = late[0]
    with shop.lake.sessions.take() as spark, transaction(spark, app, int(version)):
        for found, view in views:
            found.create_view(spark, view)
        real(spark, statement, path)

    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_a_table_that_refuses_rows_waits_alone_and_catches_up(shop: LandedShop) -> None:
    """The others go on, its log grows, the pause grows; mended it has everything."""
    for table in ("bad", "good"):
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
        shop.execute(f"INSERT INTO {table} VALUES (1, 'a', 1)")
    shop.land()
    outcomes = shop.follow()
    assert {one.table for one in outcomes} == {shop.named("bad"), shop.named("good")}
    path = shop.lake.lake.path(shop.database, "bad")
    with shop.lake.sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.{quote(path)} ADD CONSTRAINT small CHECK (n < 10)").collect()
    for number in (2, 30, 4):
        for table in ("bad", "good"):
            shop.execute(f"INSERT INTO {table} VALUES ({number}, 'a', {number})")
        shop.land()
        outcomes = shop.follow(parked=True)
        assert [one.table for one in outcomes if isinstance(one, Merged)].count(shop.named("good")) == 1
    waits = shop.parking.tables()[shop.named("bad")]
    assert waits.tries == 2
    assert "small" in waits.reason
    assert waits.next_try - waits.since > 15
    assert [one.table for one in shop.follow()] == []  # it is not due yet
    assert shop.merged("good") == shop.source("good") == shop.now("good")
    assert shop.now("bad") == shop.source("bad")

    with shop.lake.sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.{quote(path)} DROP CONSTRAINT small").collect()
    assert [type(one) for one in shop.follow(parked=True)] == [Merged]
    assert shop.parking.tables() == {}
    assert shop.differences("bad", "good") == {"bad": (0, 0, 0), "good": (0, 0, 0)}


@pytest.mark.in_turn
def test_spark_that_is_away_ends_the_run_and_parks_nobody(shop: LandedShop) -> None:
    """It is no table's trouble."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a')")
    shop.land()
    with pytest.raises(LakeError) as caught:
        shop.follow(remote="sc://127.0.0.1:1")
    assert not isinstance(caught.value, TableStopped)
    assert shop.parking.tables() == {}
