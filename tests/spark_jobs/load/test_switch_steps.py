"""The change log of a stopped table at a real service, and when a snapshot is not switched. No Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import Transaction

from cdc_core.errors import LakeError, SessionError
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply import batch as applying
from spark_jobs.lake.ddl import table_properties
from spark_jobs.lake.state import app_id
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.cutover import Cutover
from spark_jobs.load.result import Broken
from tests.support.plain_lake import PlainLake, replacing, rows_of, write
from tests.support.shop import Shop, opened_shop
from tests.support.snapshot_trial import SnapshotTrial

pytestmark = pytest.mark.integration
NOWHERE = "sc://127.0.0.1:1"


def changes(shop: Shop, snapshot_id: str) -> int:
    log = ChangeLog(shop.lake.lake, "shop", snapshot_id)
    return log.lake.open(log.path).to_pyarrow_table().num_rows if log.end() is not None else 0


def acked_by_an_older_run(shop: Shop) -> None:
    """A claim of one that knows no snapshots."""
    shop.connector.ack(shop.claim(10, owner="older"))


def test_changes_of_a_stopped_table_are_kept_once(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies after the log and before its ack leaves a claim that comes again in other parts: nothing is
    there twice, nothing is missing. The table itself is not made."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        acked_by_an_older_run(shop)
        opened = SnapshotTrial(shop, "t", first=True).open()
        shop.execute("INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)", "UPDATE t SET v = 3 WHERE id = 1")

        def die(*_: object) -> None:
            raise LakeError("killed", hint="")

        with monkeypatch.context() as patched:
            patched.setattr(applying, "broken_otherwise", die)
            with pytest.raises(LakeError, match="killed"):
                shop.drain()
        assert changes(shop, opened.id) == 4
        shop.execute("DELETE FROM t WHERE id = 2")
        assert shop.drain(batch_size=1) == []
        assert changes(shop, opened.id) == 5
        assert shop.lake.lake.state(shop.lake.lake.path(shop.database, "t"), "") is None
        (status,) = shop.connector.client_status().snapshots
        assert (status.broken, status.acked) == ("", shop.connector.client_status().cursor)


def test_images_that_leave_columns_out_break_the_snapshot(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The service knows it before the ack, and the reason names the remedy; the batch goes on."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        trial = SnapshotTrial(shop, "t", first=True)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
        acked_by_an_older_run(shop)
        opened = trial.open()
        shop.execute("SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO t VALUES (1, 1, 1)", "UPDATE t SET v = 2")
        shop.drain()
        (status,) = shop.connector.client_status().snapshots
        assert "SET GLOBAL binlog_row_image=FULL" in status.broken
        with pytest.raises(Broken, match="lacks columns"):
            trial.cutover().table(opened, trial.in_two_parts(opened, lambda: None))


def test_what_the_switch_refuses(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Changes that a run acked without keeping them, a DDL statement, and a snapshot that was cancelled: the table's
    stop stays, and nothing is written."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        trial = SnapshotTrial(shop, "t", first=True)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        acked_by_an_older_run(shop)
        opened = trial.open()
        shop.execute("ALTER TABLE t ADD COLUMN v INT", "INSERT INTO t VALUES (1, 1)")
        assert shop.drain() == []  # the statement breaks the snapshot
        with pytest.raises(Broken, match="definition changed"):
            trial.cutover().table(opened, trial.in_two_parts(opened, lambda: None))
        shop.connector.snapshots.cancel(trial.name)
        opened = trial.open()
        staged = trial.in_two_parts(opened, lambda: shop.execute("INSERT INTO t VALUES (2, 2)"))
        shop.skip()
        with pytest.raises(Broken, match="did not keep them"):
            trial.cutover().table(opened, staged)
        assert "did not keep them" in shop.connector.client_status().snapshots[0].broken
        shop.connector.snapshots.cancel(trial.name)
        with pytest.raises(SessionError, match="was cancelled"):
            trial.cutover().table(opened, staged)
        assert [stop.table for stop in shop.connector.client_status().stopped] == [trial.name]


def test_a_statement_that_a_killed_run_followed_is_not_undone(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The rows were read before TRUNCATE, and the lake's table has it already, without an ack. In their place the
    statement would count as followed: the snapshot begins again. A batch in the log is none the worse for it."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop, replacing():
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3), (4)")
        acked_by_an_older_run(shop)
        trial, lake = SnapshotTrial(shop, "t"), PlainLake(shop.connector, shop.lake.lake)
        path, app = lake.lake.path(shop.database, "t"), app_id("shop", 1001, trial.name, 0)
        opened = trial.open()
        staged = trial.in_two_parts(opened, lambda: None)
        ours = table_properties(lake.lake, "shop", staged.schema, "")
        write(lake.lake, path, staged.schema, [(1,), (2,)], Transaction(app, staged.place.low.version()), ours)
        shop.execute("TRUNCATE TABLE t")
        followed = EntryPosition(*shop.mysql.position()).version()
        write(lake.lake, path, staged.schema, [], Transaction(app, followed), {})
        cutover = Cutover(shop.connector, lake.lake, lake.sessions)
        with pytest.raises(Broken, match="followed a statement"):
            cutover.table(opened, staged)
        assert rows_of(lake.lake, path) == []
        assert "followed a statement" in shop.connector.client_status().snapshots[0].broken
