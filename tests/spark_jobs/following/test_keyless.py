"""A table without a primary key lands first and is merged from its log: as many copies of each row as the source has,
at any moment, killed at any step, after rewinds, and whatever comes late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cdc_core.errors import TableStopped
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.following import ready as preparing
from spark_jobs.following.agreed import Agreed
from spark_jobs.following.now import now_sql
from spark_jobs.lake.transaction import transaction
from spark_jobs.landing.modes import Mode
from spark_jobs.load.remake import Remaker
from spark_jobs.write import by_statement, seen
from spark_jobs.write.by_statement import StatementWriter
from spark_jobs.write.transaction import run_statement
from tests.support.landed import Killed, LandedShop, copies, dies, opened_landed
from tests.support.snapshot_trial import SnapshotTrial

pytestmark = pytest.mark.integration

TABLE = "CREATE TABLE t (v VARCHAR(10), n INT, f DOUBLE)"


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


@pytest.mark.in_turn
@pytest.mark.full
def test_random_changes_merged_at_random_moments_are_the_source(shop: LandedShop) -> None:
    """Claims of any size; equal rows, NULLs and zeros with a sign; modes that change. The view is the source at each
    moment, the merged table when all is merged."""
    rng = random.Random(3)
    shop.execute(TABLE)
    shop.land()
    for turn in range(6):
        shop.execute(*copies(rng, "t"))
        mode = Mode.MERGE if turn in (2, 4) else Mode.LAND_FIRST
        shop.run(mode)
        assert shop.drain(rng.choice([1, 3, 1000])) == []
        if mode is Mode.LAND_FIRST and rng.random() < 0.5:
            shop.merger(part_rows=3).next(shop.named("t"))
        assert shop.now("t") == shop.source("t"), turn
    shop.merger().whole(shop.named("t"))

    assert shop.merged("t") == shop.source("t")
    assert shop.differences("t") == {"t": (0, 0, 0)}
    assert shop.follows.pending(shop.named("t")) is None


STEPS = (
    (preparing, "prepare", False),
    (Agreed, "part", True),
    (by_statement, "run_statement", False),
    (by_statement, "run_statement", True),
    (StatementWriter, "committed", True),
)


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_killed_at_any_step_it_is_done_again(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after each step; more lands before the next run, whose part would be another one. In the middle
    changes come again in another epoch, while some of the first one have yet to be merged."""
    rng = random.Random(11)
    shop.execute(TABLE)
    shop.land()
    begun = shop.read()
    for owner, step, behind in STEPS:
        shop.execute(*copies(rng, "t"))
        shop.land()
        with monkeypatch.context() as patch:
            dies(patch, owner, step, behind=behind)
            with pytest.raises(Killed):
                shop.merger().whole(shop.named("t"))
        shop.execute(*copies(rng, "t"))
        shop.land(3)
        shop.merger(part_rows=12).whole(shop.named("t"))
        assert shop.source("t") == shop.merged("t"), (step, behind)
        if step == "part":
            shop.execute(*copies(rng, "t"))
            shop.land()
            shop.reset(begun)
            shop.execute(*copies(rng, "t"))
            shop.land(5)
            assert shop.now("t") == shop.source("t")


def late_statement(
    shop: LandedShop, monkeypatch: pytest.MonkeyPatch, part_rows: int = 2_000_000
) -> tuple[str, str, int]:
    """The first statement of a run that dies before it sends it."""
    kept: list[tuple[str, str, int]] = []

    def keep(spark: Any, statement: str, _path: str) -> None:
        names = ("AppId", "Version")
        app, version = (spark.conf.get(f"spark.databricks.delta.write.txn{name}") for name in names)
        kept.append((statement, app, int(version)))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(seen, "last_images", lambda *_: nullcontext())  # which are the dead run's session's
        patch.setattr(by_statement, "run_statement", keep)
        with pytest.raises(Killed):
            shop.merger(part_rows).whole(shop.named("t"))
    return kept[0]


def send(shop: LandedShop, late: tuple[str, str, int]) -> None:
    statement, app, version = late
    with shop.lake.sessions.take() as spark, transaction(spark, app, version):
        spark.sql(statement).collect()


@pytest.mark.in_turn(2)
@pytest.mark.full
@pytest.mark.parametrize("inserted", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_statement_of_a_dead_run_counts_once(
    shop: LandedShop, monkeypatch: pytest.MonkeyPatch, inserted: bool, first: bool
) -> None:
    """It is sent before or after the first statement of the next run, which has more to merge, or would do so in
    smaller parts. An INSERT and a MERGE."""
    shop.execute(TABLE, "INSERT INTO t VALUES ('a', 1, 0), ('a', 1, 0)")
    shop.land()
    shop.merger().whole(shop.named("t"))
    rows = ["INSERT INTO t VALUES ('a', 1, 0)", "INSERT INTO t VALUES ('b', 2, -0e0), ('b', 2, -0e0)"]
    for statement in rows if inserted else [*rows, "DELETE FROM t WHERE v = 'a' LIMIT 1"]:
        shop.execute(statement)
        shop.land()
    late = late_statement(shop, monkeypatch)
    assert late[0].startswith("INSERT" if inserted else "MERGE")
    shop.execute("INSERT INTO t VALUES ('c', 3, 0)")
    shop.land()
    real, sent = run_statement, list[int]()

    def beside(spark: Any, statement: str, path: str) -> None:
        if first and not sent:
            send(shop, late)
        real(spark, statement, path)
        if not first and not sent:
            send(shop, late)
        sent.append(1)

    with monkeypatch.context() as patch:
        patch.setattr(by_statement, "run_statement", beside)
        shop.merger(part_rows=1).whole(shop.named("t"))
    send(shop, late)

    assert sent
    assert shop.merged("t") == shop.source("t") == shop.now("t")


@pytest.mark.in_turn(2)
@pytest.mark.full
@pytest.mark.parametrize(("key", "epoch"), [("", 0), ("", 1), (", PRIMARY KEY (n)", 1)])
def test_a_statement_of_a_dead_run_does_not_come_after_a_copy(
    shop: LandedShop, monkeypatch: pytest.MonkeyPatch, key: str, epoch: int
) -> None:
    """It was sent, and begins when a snapshot has become the table: in the same epoch, where it reaches beyond what is
    acked, and after a rewind. Its changes up to there are in the copy. With a key: a table that only Spark can write,
    because a column has another name."""
    shop.execute(f"CREATE TABLE t ({'u' if key else 'v'} VARCHAR(10), n INT{key})", "INSERT INTO t VALUES ('a', 1)")
    shop.land()
    shop.merger().whole(shop.named("t"))
    if key:
        shop.execute("ALTER TABLE t RENAME COLUMN u TO v")
        assert shop.land() == []
    trial = SnapshotTrial(shop, "t")
    if epoch:
        shop.execute("UPDATE t SET v = 'late'" if key else "INSERT INTO t VALUES ('b', 2)")
        shop.land()
        late = late_statement(shop, monkeypatch)
        shop.reset(shop.read())
    snapshot = trial.open()
    staged = trial.at_once(snapshot, lambda: shop.execute("INSERT INTO t VALUES ('c', 3)", "UPDATE t SET v = 'd'"))
    assert shop.land() == []
    if not epoch:
        shop.execute("INSERT INTO t VALUES ('not acked', 4)")
        claim = shop.claim()
        shop.run()
        shop.lake.apply(claim, "run", 1, ())
        shop.connector.rollback(claim, reason="the run died")
        late = late_statement(shop, monkeypatch)
    trial.cutover().table(snapshot, staged, sleep=lambda _: None)
    send(shop, late)

    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    assert shop.merged("t") == shop.source("t") == shop.now("t")
    assert shop.connector.client_status().snapshots == ()


@pytest.mark.in_turn
@pytest.mark.full
def test_changes_that_come_again_count_once(shop: LandedShop) -> None:
    """Rewound while the log has changes of the first epoch that are not merged; and merged in parts. The view that was
    made before says that it must be reloaded."""
    rng = random.Random(7)
    shop.execute(TABLE)
    shop.land()
    begun = shop.read()
    for _ in range(3):
        shop.execute(*copies(rng, "t"))
        shop.land(4)
        shop.merger(part_rows=3).next(shop.named("t"))
    assert shop.follows.pending(shop.named("t")) is not None
    shop.now("t")
    for _ in range(2):
        shop.reset(begun)
        shop.execute(*copies(rng, "t"))
        shop.land(5)
        with pytest.raises(Exception, match="SLUICE_NEW_EPOCH"):
            shop.now("t", anew=False)
        assert shop.now("t") == shop.source("t")
        shop.merger(part_rows=3).next(shop.named("t"))
        assert shop.now("t") == shop.source("t")
    shop.merger().whole(shop.named("t"))

    assert shop.merged("t") == shop.source("t")
    assert shop.differences("t") == {"t": (0, 0, 0)}
    shop.execute("DELETE FROM t")
    shop.run(Mode.MERGE)
    assert shop.drain() == []
    assert shop.merged("t") == shop.source("t")


def test_where_it_is_not_certain_what_comes_again_the_table_waits(shop: LandedShop) -> None:
    """Changes from before the first epoch's come as well: the log takes them, the table does not."""
    shop.execute(TABLE)
    begun = shop.read()
    shop.execute("INSERT INTO t VALUES ('skipped', 1, 0)")
    shop.skip()
    shop.execute("INSERT INTO t VALUES ('a', 1, 0)")
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    shop.reset(begun)
    shop.execute("INSERT INTO t VALUES ('b', 1, 0)")
    assert shop.land() == []
    before = shop.merged("t")

    with pytest.raises(TableStopped, match="unknown which of the repeated rows"):
        shop.merger().whole(shop.named("t"))
    with pytest.raises(TableStopped, match="unknown which of the repeated rows"):
        now_sql(shop.follows, shop.named("t"))
    assert shop.merged("t") == before


@pytest.mark.in_turn
def test_a_table_that_has_fewer_copies_waits_alone(shop: LandedShop) -> None:
    """Its log goes on, and so does the other table."""
    shop.execute(TABLE, "CREATE TABLE other (v INT)", "INSERT INTO t VALUES ('a', 1, 0), ('a', 1, 0)")
    shop.land()
    shop.follow()
    with shop.lake.sessions.take() as spark:
        spark.sql(f"DELETE FROM delta.`{shop.follows.path(shop.named('t'))}`").collect()
    shop.execute("DELETE FROM t LIMIT 1", "INSERT INTO other VALUES (1)")
    assert shop.land() == []
    shop.follow()

    assert "fewer copies" in shop.parking.tables()[shop.named("t")].reason
    assert shop.merged("other") == shop.source("other")


@pytest.mark.in_turn
@pytest.mark.full
def test_statements_are_followed_after_the_whole_log(shop: LandedShop) -> None:
    """TRUNCATE, columns that come and go, and a table that is dropped and made again. What cancels out is passed."""
    shop.execute(TABLE, "INSERT INTO t VALUES ('a', 1, 0), ('a', 1, 0), ('b', 2, -0e0)")
    shop.land()
    shop.execute("DELETE FROM t WHERE v = 'b'")
    shop.execute("TRUNCATE t", "INSERT INTO t VALUES ('c', 1, 0), ('c', 1, 0)")
    shop.land()
    assert shop.now("t") == shop.source("t")
    shop.execute("INSERT INTO t VALUES ('d', 1, 0)", "DELETE FROM t WHERE v = 'd'")
    shop.land()
    shop.merger().whole(shop.named("t"))
    assert shop.follows.pending(shop.named("t")) is None
    shop.execute("ALTER TABLE t ADD COLUMN more INT DEFAULT 5", "UPDATE t SET more = 6 LIMIT 1")
    shop.land(1)
    assert shop.now("t") == shop.source("t")
    shop.execute("ALTER TABLE t DROP COLUMN f", "DELETE FROM t LIMIT 1")
    shop.land(1)
    shop.merger().whole(shop.named("t"))
    assert shop.merged("t") == shop.source("t") == shop.now("t")
    shop.execute("DROP TABLE t", TABLE, "INSERT INTO t VALUES ('a', 1, 0), ('a', 1, 0)")
    shop.land()
    shop.merger().whole(shop.named("t"))

    assert shop.merged("t") == shop.source("t")
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
@pytest.mark.full
def test_a_part_of_which_delta_makes_no_commit_is_passed(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copies cancel out: an empty commit has the version."""
    shop.execute(TABLE, "INSERT INTO t VALUES ('a', 1, 0)")
    shop.land()
    shop.merger().whole(shop.named("t"))
    shop.execute("INSERT INTO t VALUES ('b', 1, 0)", "DELETE FROM t WHERE v = 'b'")
    shop.land()
    with monkeypatch.context() as patch:
        patch.setattr(by_statement, "run_statement", lambda *_: None)
        shop.merger().whole(shop.named("t"))

    assert shop.follows.pending(shop.named("t")) is None
    assert shop.merged("t") == shop.source("t") == shop.now("t")


@pytest.mark.in_turn
@pytest.mark.full
def test_a_log_that_was_alone_empties_its_table(shop: LandedShop) -> None:
    """A TRUNCATE in the middle of what waits, because the mode was `append` meanwhile; without a table of before."""
    shop.execute(TABLE, "INSERT INTO t VALUES ('a', 1, 0), ('a', 1, 0)")
    shop.run(Mode.APPEND)
    shop.drain()
    shop.execute("TRUNCATE t", "INSERT INTO t VALUES ('b', 1, 0)", "DELETE FROM t", "INSERT INTO t VALUES ('c', 1, 0)")
    shop.run(Mode.APPEND)
    shop.drain()
    shop.execute("INSERT INTO t VALUES ('c', 1, 0)")
    shop.land()
    shop.merger().whole(shop.named("t"))

    assert shop.merged("t") == shop.source("t") == shop.now("t")


@pytest.mark.in_turn
@pytest.mark.full
def test_it_is_reloaded_from_its_log(shop: LandedShop) -> None:
    """From nothing, and from a version of before a rewind; what others did to it is undone."""
    shop.execute(TABLE)
    begun = shop.read()
    rows = "INSERT INTO t VALUES ('a', 1, -0e0), ('a', 1, 0)"
    shop.execute("INSERT INTO t VALUES ('gone', 1, 0)", "TRUNCATE t", rows)
    shop.land(1)
    shop.merger().whole(shop.named("t"))
    shop.execute("INSERT INTO t VALUES ('b', 2, NULL), ('b', 2, NULL)", "DELETE FROM t WHERE v = 'a' LIMIT 1")
    shop.land()
    shop.merger().whole(shop.named("t"))
    path = shop.follows.path(shop.named("t"))
    earlier = shop.lake.lake.open(path).version()
    shop.reset(begun)
    shop.execute("UPDATE t SET v = 'c' LIMIT 2")
    shop.land(1)
    shop.merger().whole(shop.named("t"))
    right = shop.merged("t")
    assert right == shop.source("t")
    shop.execute("INSERT INTO t VALUES ('waits', 1, 0)")
    shop.land()

    for version in (None, earlier):
        with shop.lake.sessions.take() as spark:
            spark.sql(f"DELETE FROM delta.`{path}` WHERE v = 'c'").collect()
        assert shop.merged("t") != right
        Remaker(shop.follows, shop.lake.sessions, "run", sleep=lambda _: None).table(shop.named("t"), version)
        assert shop.merged("t") == right
        assert shop.now("t") == shop.source("t")
    shop.merger().whole(shop.named("t"))
    assert shop.merged("t") == shop.source("t")
