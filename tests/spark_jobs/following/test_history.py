"""Histories follow change logs: every version of a row is there once, and the current ones are the source's rows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from math import copysign
from pathlib import Path
from typing import Any

import pytest

from cdc_core.errors import TableStopped
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.changes.versions import CURRENT, VALID_FROM, VALID_TO
from spark_jobs.following.history import historian as keeping
from spark_jobs.following.history.columns import lacking
from spark_jobs.following.history.historian import Historian
from spark_jobs.following.history.own import OwnHistories
from spark_jobs.lake.progress import Epoch
from spark_jobs.lake.types import LakeColumn
from spark_jobs.landing.modes import Mode
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.write import sorted_images as staging
from tests.support.landed import Killed, LandedShop, changes, dies, opened_landed

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        shop.mode = Mode.HISTORY
        shop.run()
        yield shop


def versions(shop: LandedShop, table: str, key: int) -> list[tuple[Any, ...]]:
    """Of one key: the value, and whether begin, end and presence are there."""
    return [
        (row["v"], row[VALID_FROM] is not None, row[VALID_TO] is not None, row[CURRENT])
        for row in shop.history(table)
        if row["id"] == key
    ]


def check(shop: LandedShop, table: str) -> None:
    """Each key's versions follow each other without a gap, and what is current is the source."""
    rows = shop.history(table)
    for one, later in pairwise(rows):
        if one["id"] == later["id"]:
            assert not one[CURRENT], (one, later)
            assert one[VALID_TO] is None or later[VALID_FROM] is None or one[VALID_TO] <= later[VALID_FROM], (
                one,
                later,
            )
    assert shop.current(table) == shop.source(table)


@pytest.mark.in_turn
def test_a_rule_computes_columns_of_every_version(shop: LandedShop) -> None:
    """In the log, the merged table, the history and the view, before and after a statement."""
    rule = TableRule(rename=(("v", "name"),), computed=(("label", "CONCAT_WS('-', CAST(id AS CHAR), UPPER(v))"),))
    shop.connector.set_rules(Rules({"*.t": rule}))
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    shop.land()
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "ALTER TABLE t ADD n INT DEFAULT 5 FIRST")
    shop.execute("UPDATE t SET id = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (0, 4, 'd')")
    shop.land()
    shop.keep("t")

    found = [(row["id"], row["name"], row["label"], row[CURRENT]) for row in shop.history("t")]
    assert found == [
        (1, "a", "1-A", False), (1, "b", "1-B", False), (2, None, "2", False), (3, "b", "3-B", True),
        (4, "d", "4-D", True),
    ]  # fmt: skip
    assert shop.merged("t") == shop.now("t") == shop.current("t")


@pytest.mark.in_turn
@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.full)])
def test_every_change_is_a_version(shop: LandedShop, monkeypatch: pytest.MonkeyPatch, *, large: bool) -> None:
    """Many of one key in one second, a key that changes, a row that goes and comes, a TRUNCATE. The same where parts
    are taken for large ones, which Spark reads as files."""
    read: list[bool] = []

    staged = staging._versions

    def noted(*args: Any) -> Any:
        read.append(True)
        return staged(*args)

    if large:
        monkeypatch.setattr(staging, "LEAST_ROWS", 1)
        monkeypatch.setattr(keeping, "MANY_ROWS", 1)
    monkeypatch.setattr(staging, "_versions", noted)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))")
    shop.execute("INSERT INTO t VALUES (1, 'a'), (2, 'a')", "UPDATE t SET v = 'b' WHERE id = 1")
    shop.land()
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "UPDATE t SET id = 3 WHERE id = 1")
    shop.execute("INSERT INTO t VALUES (2, 'd')")
    shop.land()
    shop.keep("t")

    closed, current = (True, True, False), (True, False, True)
    assert versions(shop, "t", 1) == [("a", *closed), ("b", *closed), ("c", *closed)]
    assert versions(shop, "t", 2) == [("a", *closed), ("d", *current)]
    assert versions(shop, "t", 3) == [("c", *current)]
    check(shop, "t")
    before = shop.history("t")
    shop.keep("t")
    assert shop.history("t") == before

    shop.execute("UPDATE t SET v = 'e' WHERE id = 2", *["TRUNCATE TABLE t"] * 2, "INSERT INTO t VALUES (3, 'f')")
    shop.land()
    shop.keep("t")
    assert versions(shop, "t", 2)[1:] == [("d", *closed), ("e", *closed)]
    assert versions(shop, "t", 3) == [("c", *closed), ("f", *current)]
    check(shop, "t")
    assert bool(read) is large


@pytest.mark.in_turn
@pytest.mark.full
def test_it_begins_with_the_rows_of_the_table(shop: LandedShop) -> None:
    """Since when they were there is not known."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.run(Mode.MERGE)
    shop.drain()
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1")
    shop.land()
    shop.keep("t")

    assert versions(shop, "t", 1) in (
        [("a", False, True, False), ("b", True, False, True)],
        [("b", False, False, True)],  # the table had it before
    )
    assert versions(shop, "t", 2) == [("a", False, False, True)]
    check(shop, "t")


@pytest.mark.in_turn
@pytest.mark.full
def test_it_takes_what_came_without_its_log(shop: LandedShop) -> None:
    """Changes that were merged directly, in another mode; columns that come and go with their values."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.land()
    shop.keep("t")
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (5, 'b')")
    shop.run(Mode.MERGE)
    shop.drain()
    shop.execute("UPDATE t SET v = 'c' WHERE id = 5")
    shop.land()
    shop.keep("t")
    check(shop, "t")
    shop.execute("ALTER TABLE t ADD COLUMN n INT DEFAULT 7", "UPDATE t SET v = 'd' WHERE id = 1")
    shop.land()
    shop.keep("t")
    check(shop, "t")
    shop.execute("ALTER TABLE t RENAME COLUMN n TO m", "INSERT INTO t VALUES (6, 'x', 1)")
    shop.land()
    shop.keep("t")
    assert shop.current("t") == shop.source("t")
    shop.execute("ALTER TABLE t DROP COLUMN m", "UPDATE t SET v = 'y' WHERE id = 6")
    shop.land()
    shop.keep("t")
    assert shop.current("t") == shop.source("t")
    assert {"n", "m"} <= shop.history("t")[0].keys()


@pytest.mark.in_turn
@pytest.mark.full
def test_rows_that_came_by_a_rename_came_then(shop: LandedShop) -> None:
    """Their first change says what they were; they were not there before the statement."""
    names = ("a", "b")
    shop.execute(*(f"CREATE TABLE {one} (id INT PRIMARY KEY, v VARCHAR(40))" for one in names))
    shop.execute(*(f"INSERT INTO {one} VALUES (1, '{one}')" for one in names))
    assert shop.land() == []
    shop.keep(*names)
    shop.execute(
        "SET TIMESTAMP = 2000000000", "RENAME TABLE a TO other, b TO a, other TO b", "SET TIMESTAMP = 2000000060",
        "UPDATE a SET v = 'changed'", "DELETE FROM b",
    )  # fmt: skip
    assert shop.land() == []
    shop.keep(*names)
    moved, changed = (datetime.fromtimestamp(at, UTC) for at in (2_000_000_000, 2_000_000_060))
    for one, versions in (("a", [("b", moved, changed), ("changed", changed, None)]), ("b", [("a", moved, changed)])):
        found = [(row["v"], row[VALID_FROM], row[VALID_TO]) for row in shop.history(one)]
        assert found[0][0] == one
        assert found[0][2] == moved
        assert found[1:] == versions


@pytest.mark.in_turn
@pytest.mark.full
def test_a_comparison_sees_the_sign_of_zero(shop: LandedShop) -> None:
    """It came without the log. Else the comparison of both would differ for ever."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE)", "INSERT INTO t VALUES (1, 0), (2, -0e0), (3, 0)")
    shop.land()
    shop.keep("t")
    shop.execute("UPDATE t SET v = -0e0 WHERE id = 1", "UPDATE t SET v = 0 WHERE id = 2")
    shop.run(Mode.MERGE)
    shop.drain()
    shop.keep("t")
    current = {row["id"]: copysign(1, row["v"]) for row in shop.history("t") if row[CURRENT]}
    assert current == {1: -1, 2: 1, 3: 1}
    assert len(shop.history("t")) == 5


@pytest.mark.in_turn
@pytest.mark.full
def test_a_comparison_closes_with_a_time_where_the_log_has_no_row(shop: LandedShop) -> None:
    """The time of its rows was over. Without an end a version that is closed would seem to last."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.land()
    shop.keep("t")
    later = time.time() + 90 * 86400
    assert LogUpkeep(shop.follows, lambda: later).log(shop.named("t"), Retention(30 * 24)).rows_deleted == 2
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    shop.run(Mode.MERGE)
    shop.drain()
    shop.keep("t")
    assert versions(shop, "t", 1) == [("a", True, True, False), ("b", True, False, True)]
    assert versions(shop, "t", 2) == [("a", True, True, False)]
    check(shop, "t")


def test_what_a_history_cannot_hold_stops_it() -> None:
    """Another type, another spelling, and names of its own; with the remedy. New columns it gets."""
    have = (LakeColumn("id", "int"), LakeColumn("n", "int"))
    assert lacking(have, (*have, LakeColumn("m", "string")), "h") == (LakeColumn("m", "string"),)
    assert lacking(have, have[:1], "h") == ()
    for column in (LakeColumn("n", "bigint"), LakeColumn("N", "int")):
        with pytest.raises(TableStopped, match="'n int'") as caught:
            lacking(have, (column,), "h")
        assert "Move the folder" in caught.value.hint
    with pytest.raises(TableStopped, match="a history's own"):
        lacking(have, (LakeColumn("Valid_From", "date"),), "h")


@pytest.mark.in_turn
@pytest.mark.full
def test_changes_that_come_again_make_no_versions(shop: LandedShop) -> None:
    """After a rewind, while the table goes back in time and comes again."""
    begun = shop.read()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (2, 'c')")
    shop.land()
    shop.keep("t")
    before = shop.history("t")
    shop.reset(begun)
    shop.batch(3)
    shop.run()
    shop.keep("t")
    assert shop.history("t") == before
    shop.land(3)
    shop.keep("t")
    assert shop.history("t") == before
    shop.execute("UPDATE t SET v = 'd' WHERE id = 1")
    shop.land()
    shop.keep("t")
    assert [row["v"] for row in shop.history("t") if row["id"] == 1] == ["a", "b", "d"]
    check(shop, "t")


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_a_comparison_that_is_killed_stands_at_its_place(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its commit too: to a server that goes on there by GTID nothing comes again that the history has."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    shop.land()
    shop.keep("t")
    shop.execute("UPDATE t SET v = 'b' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    shop.run(Mode.MERGE)
    shop.drain()
    histories = shop.historian().histories
    for behind in (False, True):
        with monkeypatch.context() as patch:
            dies(patch, Historian, "_committed", behind=behind)
            with pytest.raises(Killed):
                shop.keep("t")
        progress, table = histories.progress(shop.named("t"), 0), histories.table_progress(shop.named("t"), 0)
        assert progress is not None
        assert table is not None
        assert Epoch(1, moved=1, seamless=((1, table.ends[0]),)).unrepeated(progress.ends) == {0}
    shop.keep("t")
    check(shop, "t")


STEPS: tuple[tuple[Any, str, bool], ...] = (  # after a step is before the next one
    (OwnHistories, "entered", False),
    (OwnHistories, "widened", False),
    (Historian, "_committed", False),
    (keeping, "run_statement", False),
    (keeping, "run_statement", True),
    (OwnHistories, "note", True),
)


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_killed_at_any_step_it_is_the_log_replayed(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after each step, merged and rewound in between; a history made of the whole log is the same."""
    rng, begun = random.Random(2), shop.read()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))")
    shop.execute(*changes(rng, "t"))
    shop.land()
    shop.keep("t")  # it is there from the first change on
    for owner, step, behind in STEPS:
        shop.execute(*changes(rng, "t"))
        shop.land(rng.choice([3, 1000]))
        if rng.random() < 0.5:
            shop.merger().whole(shop.named("t"))
        with monkeypatch.context() as patch:
            dies(patch, owner, step, behind=behind)
            with suppress(Killed):
                shop.keep("t", part_rows=rng.choice([5, 100]))
        shop.keep("t")
        check(shop, "t")
        if step == "widened":
            shop.reset(begun)
            shop.land(5)
    kept = shop.history("t")
    path = Path(shop.lake.lake.history_path(shop.database, "t"))
    path.rename(path.with_name("old"))
    merged = Path(shop.lake.lake.path(shop.database, "t"))
    merged.rename(merged.with_name("merged"))
    shop.historian().whole(shop.named("t"))
    assert shop.history("t") == kept
