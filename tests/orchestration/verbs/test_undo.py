"""Undo, redo, replay and restore: what an order may ask, and at a real source, a real service and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import QueryBuilder
from pydantic import ValidationError
from typer.testing import CliRunner

from cdc_core.errors import ConfigError, LakeError, SluiceError
from orchestration.cli import app
from orchestration.commands.verb import access_of, run
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs import restore
from orchestration.verbs.orders import Order, Redo, Replay, Restore, Undo, Verify
from spark_jobs.lake.corrections import Corrections
from spark_jobs.lake.fence import Fence
from spark_jobs.load import hold
from spark_jobs.undo.commit import Corrector
from spark_jobs.undo.restore import Restorer
from tests.support.jobs import executed
from tests.support.shop import Shop, opened_shop, until_running
from tests.support.undoing import Killed
from tests.support.verbs import commanded


class TestOrders:
    @pytest.mark.parametrize(
        "fields", [{}, {"batch": "1", "gtid": "a:1"}, {"batch": "1", "since": "2026-01-01"}, {"force": True}]
    )
    @pytest.mark.parametrize("order", [Undo, Replay])
    def test_one_part(self, order: type[Order], fields: dict[str, Any]) -> None:
        """An order asks for one part of the past."""
        with pytest.raises(ValidationError, match="give exactly one of batch"):
            order(**fields)

    def test_parts(self) -> None:
        """A window may have one end."""
        for fields in ({"batch": "1..2"}, {"gtid": "a:1"}, {"since": "2026-01-01"}, {"until": "2026-01-01"}):
            assert Undo(**fields).dry_run

    def test_usage(self, tmp_path: Path) -> None:
        """Bad usage is said by the command."""
        for given in (["undo", "shop"], ["redo", "shop"], ["redo", "shop", "--number", "0"], ["restore", "shop"]):
            done = CliRunner().invoke(app, [*given, "--lake", str(tmp_path)])
            assert done.exit_code == 2, done.output

    def test_empty_lake(self, tmp_path: Path) -> None:
        """A lake without a ledger says so; a job's history has it."""
        at = access_of("shop", lake=str(tmp_path), service="http://127.0.0.1:1")
        for order in (Undo(batch="1"), Redo(number=1)):
            with pytest.raises(ConfigError):
                run(order, at, as_json=True)
        (tmp_path / "conf").mkdir()
        done = executed(Undo, "http://127.0.0.1:1", tmp_path / "conf", batch="1", reason="why")
        assert "no ledger" in done.failure


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(12,2), at DATETIME(3))")
        shop.execute("CREATE TABLE keyless (v INT)")
        shop.execute("INSERT INTO t VALUES (1, 'a', 1.5, '2026-01-01'), (2, 'b', NULL, NULL), (3, 'c', 3, NULL)")
        shop.execute("INSERT INTO keyless VALUES (1), (1), (2)")
        assert shop.drain() == []
        yield shop


@pytest.mark.integration
class TestAtASource:
    @pytest.mark.in_turn
    def test_undo_and_redo(self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A dry run changes nothing. The undo puts the rows, by delta-rs or by Spark; the comparison counts them by the
        undo, a repair leaves them, and the redo takes them back."""
        asked = changed(shop)
        for small in (True, False):
            with mock.patch.object(Corrector, "_is_small", lambda *_, small=small: small):
                (dry,) = self._lines(shop, tmp_path, capsys, Undo(batch=asked, tables=[f"{shop.database}.t"]))
                assert (dry["put"], dry["dry_run"], len(dry["examples"])) == (3, True, 3)
                assert shop.differences("t") == {"t": (0, 0, 0)}
                order = Undo(batch=asked, tables=[f"{shop.database}.t"], dry_run=False)
                (done,) = self._lines(shop, tmp_path, capsys, order)
                assert done["put"] == 3
                (found,) = self._lines(shop, tmp_path, capsys, Verify(tables=[f"{shop.database}.t"], repair=True))
                assert (found["missing"], found["extra"], found["different"], found["repaired"]) == (0, 0, 0, 0)
                assert found["on_purpose"] == {f"undo {done['number']}: a bad release": 3}
                (again,) = self._lines(shop, tmp_path, capsys, Redo(number=done["number"], dry_run=False))
                assert again["put"] == 3
                assert shop.differences("t") == {"t": (0, 0, 0)}

    @pytest.mark.in_turn
    def test_stream_goes_on(self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Later changes of rows that were undone apply, once; rows that a later batch changed are left."""
        asked = changed(shop)
        shop.execute("UPDATE t SET v = 'later' WHERE id = 2")
        assert shop.drain() == []
        order = Undo(batch=asked, tables=[f"{shop.database}.t"], dry_run=False)
        (done,) = self._lines(shop, tmp_path, capsys, order)
        assert (done["put"], done["left"]) == (2, 1)
        shop.execute("UPDATE t SET v = 'now'", "INSERT INTO t VALUES (9, 'new', 0, NULL)")
        assert shop.drain() == []
        (found,) = self._lines(shop, tmp_path, capsys, Verify(tables=[f"{shop.database}.t"]))
        assert (found["missing"], found["extra"], found["different"]) == (0, 0, 0)

    def test_transaction(self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """One of several transactions of a batch, by the source's binlog."""
        shop.execute("UPDATE t SET v = 'first' WHERE id = 1")
        gtid = self._last_gtid(shop)
        shop.execute("UPDATE t SET v = 'second' WHERE id = 2")
        assert shop.drain() == []
        if not gtid:
            pytest.skip("the server has no GTIDs")
        (done,) = self._lines(shop, tmp_path, capsys, Undo(gtid=gtid, dry_run=False))
        assert (done["put"], done["rows_from"]) == (1, "binlog")

    def test_refused(self, shop: Shop, tmp_path: Path) -> None:
        """A table without a key, and a statement since: nothing is written."""
        asked = changed(shop)
        with pytest.raises(LakeError, match="no primary key"):
            commanded(shop, tmp_path, Undo(batch=asked, dry_run=False))
        shop.execute("ALTER TABLE t ADD COLUMN more INT")
        assert shop.drain() == []
        with pytest.raises(LakeError, match="followed a statement"):
            commanded(shop, tmp_path, Undo(batch=asked, tables=[f"{shop.database}.t"], dry_run=False))
        assert Corrections(shop.lake.lake, "shop", 1001).tables() == []

    def test_replay(self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A batch that was undone is applied again."""
        asked, names = changed(shop), [f"{shop.database}.t"]
        self._lines(shop, tmp_path, capsys, Undo(batch=asked, tables=names, dry_run=False))
        (done,) = self._lines(shop, tmp_path, capsys, Replay(batch=asked, tables=names, dry_run=False))
        assert done["put"] == 3
        assert shop.differences("t") == {"t": (0, 0, 0)}

    @pytest.mark.parametrize("killed", ["", "_set_back", "_check_still_there", "_restored"])
    def test_restore(self, shop: Shop, tmp_path: Path, killed: str) -> None:
        """All tables, also the one without a key, are as they were at the place, and the cursor is there. Read on, the
        lake is as the source again. Killed at a step and run again, too."""
        place = str(shop.connector.client_status().cursor)
        changed(shop)
        assert commanded(shop, tmp_path, Restore(to=place)) == 0
        assert str(shop.connector.client_status().cursor) != place
        if killed:
            with mock.patch.object(restore, killed, side_effect=SluiceError("killed", hint="")), suppress(SluiceError):
                commanded(shop, tmp_path, Restore(to=place, dry_run=False))
        assert commanded(shop, tmp_path, Restore(to=place, dry_run=False)) == 0
        until_running(shop.connector)
        assert str(shop.connector.client_status().cursor) == place
        assert values(shop) == ["a", "b", "c"]
        assert shop.drain() == []
        assert shop.differences("t", "keyless") == {"t": (0, 0, 0), "keyless": (0, 0, 0)}

    @pytest.mark.parametrize(
        ("owner", "step"),
        [(restore, "_set_back"), (restore, "_begun_epoch"), (Restorer, "table"), (restore, "_restored")],
    )
    def test_a_run_after_a_killed_restore(self, shop: Shop, tmp_path: Path, owner: Any, step: str) -> None:
        """The run goes on from where the cursor was set: the lake is as the source, whichever tables were restored. The
        restore that is run again brings both to the place."""
        place = str(shop.connector.client_status().cursor)
        changed(shop)
        real = getattr(owner, step)

        def killed(*given: Any, **named: Any) -> Any:
            real(*given, **named)
            raise Killed

        with mock.patch.object(owner, step, killed), pytest.raises(Killed):
            commanded(shop, tmp_path, Restore(to=place, dry_run=False))
        until_running(shop.connector)
        shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
        assert shop.drain() == []
        assert shop.differences("t", "keyless") == {"t": (0, 0, 0), "keyless": (0, 0, 0)}

        assert commanded(shop, tmp_path, Restore(to=place, dry_run=False)) == 0
        until_running(shop.connector)
        assert str(shop.connector.client_status().cursor) == place
        assert values(shop) == ["a", "b", "c"]
        shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
        assert shop.drain() == []
        assert shop.differences("t", "keyless") == {"t": (0, 0, 0), "keyless": (0, 0, 0)}

    def test_restore_while_a_run_drains(self, shop: Shop, tmp_path: Path) -> None:
        """A run that reads on to the end as soon as the cursor is set keeps no row from being read again: the restore
        begins once more. A table without a key does not show that, because the run leaves its rows out."""
        place, drains = str(shop.connector.client_status().cursor), list[list[str]]()
        changed(shop)

        def held(*given: Any, **named: Any) -> Any:
            if not drains:
                drains.append(shop.drain())
            return hold.held(*given, **named)

        with mock.patch.object(restore, "held", held), mock.patch.object(restore, "_WAIT_SECONDS", 2.0):
            assert commanded(shop, tmp_path, Restore(to=place, dry_run=False)) == 0
        assert drains == [[]]
        until_running(shop.connector)
        assert str(shop.connector.client_status().cursor) == place
        assert shop.drain() == []
        assert shop.differences("t", "keyless") == {"t": (0, 0, 0), "keyless": (0, 0, 0)}

    def _lines(
        self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], order: Order
    ) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert commanded(shop, tmp_path, order) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]

    def _last_gtid(self, shop: Shop) -> str:
        with shop.mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@global.gtid_mode, @@global.gtid_executed")
            mode, executed_set = cursor.fetchone()
        last = str(executed_set).rpartition(",")[2].strip()
        return f"{last.partition(':')[0]}:{last.rpartition('-')[2].rpartition(':')[2]}" if mode == "ON" else ""


def values(shop: Shop) -> list[str]:
    """Returns the texts of the table, by key."""
    table = shop.lake.lake.open(shop.lake.lake.path(shop.database, "t"))
    rows = pa.table(QueryBuilder().register("t", table).execute("SELECT v FROM t ORDER BY id").read_all())
    return [str(value) for value in rows.column("v").to_pylist()]


def changed(shop: Shop) -> str:
    """A batch that changes, deletes and inserts rows. Returns its number."""
    shop.execute(
        "UPDATE t SET v = 'wrong', at = '2026-02-02 03:04:05.678' WHERE id = 2", "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (4, 'd', 4, NULL)", "INSERT INTO keyless VALUES (1)",
    )  # fmt: skip
    assert shop.drain() == []
    noted = shop.lake.ledger.opened()
    assert noted is not None
    return str(max(noted.to_pyarrow_table(columns=["batch_id"]).column(0).to_pylist()))
