"""Undo and redo of tables with soft deletes, change logs, histories and rules; open snapshots, killed runs. With a real
source, a real service and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cdc_core.errors import LakeError
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs import correcting
from orchestration.verbs.orders import Order, Redo, Undo, Verify
from spark_jobs.lake.corrections import Corrections
from spark_jobs.lake.own_columns import DELETED
from spark_jobs.lake.row_rules import Deletes, RowRules
from spark_jobs.landing.modes import Mode
from spark_jobs.undo.commit import Corrector
from tests.support.landed import LandedShop, opened_landed
from tests.support.verbs import commanded

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        shop.run(Mode.MERGE)
        yield shop


def begun(shop: LandedShop, *tables: str) -> None:
    for table in tables:
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(20), n INT)")
        shop.execute(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    assert shop.drain() == []


def changed(shop: LandedShop, *tables: str) -> str:
    """A batch that changes, deletes and inserts a row of each table. Returns its number."""
    for table in tables:
        shop.execute(
            f"UPDATE {table} SET v = 'wrong' WHERE id = 1", f"DELETE FROM {table} WHERE id = 2",
            f"INSERT INTO {table} VALUES (4, 'd', 4)",
        )  # fmt: skip
    assert shop.drain() == []
    noted = shop.lake.ledger.opened()
    assert noted is not None
    return str(max(noted.to_pyarrow_table(columns=["batch_id"]).column(0).to_pylist()))


def lines(
    shop: LandedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str], order: Order, code: int = 0
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert commanded(shop, tmp_path, order) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]


def values(shop: LandedShop, table: str = "t") -> dict[int, str]:
    """The living rows by key, each of which is there once, also as a deleted one."""
    there = shop.lake.lake.open(shop.lake.lake.path(shop.database, table)).to_pyarrow_table().to_pylist()
    assert len({row["id"] for row in there}) == len(there)
    return {row["id"]: row["v"] for row in there if not row.get(DELETED)}


BEFORE, AFTER = {1: "a", 2: "b", 3: "c"}, {1: "wrong", 3: "c", 4: "d"}


@pytest.mark.in_turn
def test_soft_deletes(shop: LandedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that comes back takes the place of its deleted row, by delta-rs and by Spark; the comparison counts the
    rows by the undo, the redo takes them back, and the stream goes on."""
    shop.lake.lake.rules = RowRules(Deletes.SOFT)
    shop.run(Mode.MERGE)
    begun(shop, "t")
    asked = changed(shop, "t")
    for small in (True, False):
        with mock.patch.object(Corrector, "_is_small", lambda *_, small=small: small):
            (done,) = lines(shop, tmp_path, capsys, Undo(batch=asked, dry_run=False))
            assert (done["put"], values(shop)) == (3, BEFORE)
            (found,) = lines(shop, tmp_path, capsys, Verify(tables=[shop.named("t")]))
            assert found["on_purpose"] == {f"undo {done['number']}: a bad release": 3}
            assert (found["missing"], found["extra"], found["different"]) == (0, 0, 0)
            (done,) = lines(shop, tmp_path, capsys, Redo(number=done["number"], dry_run=False))
            assert (done["put"], values(shop)) == (3, AFTER)
            (found,) = lines(shop, tmp_path, capsys, Verify(tables=[shop.named("t")]))
            assert not found["on_purpose"]
    shop.execute("DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (2, 'again', 2)")
    assert shop.drain() == []
    assert values(shop) == {1: "wrong", 2: "again", 4: "d"}


@pytest.mark.in_turn
def test_log_and_history(shop: LandedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows come from the change log. The history gets the undone rows as versions; both go on."""
    shop.run(Mode.LAND_FIRST)
    begun(shop, "t")
    shop.keep("t")
    asked = changed(shop, "t")
    with pytest.raises(LakeError, match="not got all of these changes yet"):
        commanded(shop, tmp_path, Undo(batch=asked, dry_run=False))
    shop.keep("t")
    (done,) = lines(shop, tmp_path, capsys, Undo(batch=asked, dry_run=False))
    assert (done["put"], done["rows_from"], values(shop)) == (3, "log", BEFORE)
    shop.keep("t")
    assert shop.current("t") == shop.merged("t")
    (done,) = lines(shop, tmp_path, capsys, Redo(number=done["number"], dry_run=False))
    shop.keep("t")
    assert values(shop) == AFTER
    assert shop.current("t") == shop.merged("t")
    shop.execute("UPDATE t SET v = 'now', n = n + 1")
    assert shop.drain() == []
    shop.keep("t")
    assert shop.current("t") == shop.merged("t") == shop.source("t")


def test_rules(shop: LandedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are put with the columns that the rules leave; the binlog, which has others, is not asked."""
    rule = TableRule(exclude=("n",), rename=(("v", "name"),))
    shop.connector.set_rules(Rules({"*.t": rule}))
    begun(shop, "t")
    asked = changed(shop, "t")
    (done,) = lines(shop, tmp_path, capsys, Undo(batch=asked, dry_run=False))
    there = shop.lake.lake.open(shop.lake.lake.path(shop.database, "t")).to_pyarrow_table()
    assert (done["put"], done["rows_from"]) == (3, "versions")
    assert {row["id"]: row["name"] for row in there.to_pylist()} == BEFORE
    (done,) = lines(shop, tmp_path, capsys, Redo(number=done["number"], dry_run=False))
    assert done["put"] == 3


def test_open_snapshot(shop: LandedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table that is being read is refused before anything is noted: the snapshot would bring the source's rows."""
    begun(shop, "t")
    asked = changed(shop, "t")
    opened = shop.connector.snapshots.open(shop.named("t"), owner="reader")
    with pytest.raises(LakeError, match="snapshot of the table is open") as caught:
        commanded(shop, tmp_path, Undo(batch=asked, dry_run=False))
    assert f"sluice snapshot shop {shop.named('t')} --cancel" in caught.value.hint
    assert Corrections(shop.lake.lake, "shop", 1001).tables() == []
    assert values(shop) == AFTER
    shop.connector.snapshots.close(opened)
    (done,) = lines(shop, tmp_path, capsys, Undo(batch=asked, dry_run=False))
    assert (done["put"], values(shop)) == (3, BEFORE)


def test_killed_between_tables(shop: LandedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same order goes on under the same number, and one redo takes all of it back."""
    begun(shop, "t", "u")
    asked, real, calls = changed(shop, "t", "u"), correcting._put, list[str]()

    def put(*given: Any) -> Any:
        calls.append(given[-1].table)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*given)

    with mock.patch.object(correcting, "_put", put), suppress(KeyboardInterrupt):
        commanded(shop, tmp_path, Undo(batch=asked, dry_run=False))
    assert (values(shop, "t"), values(shop, "u")) == (BEFORE, AFTER)
    first, second = lines(shop, tmp_path, capsys, Undo(batch=asked, dry_run=False))
    assert (first["number"], second["number"], first["put"], second["put"]) == (1, 1, 0, 3)
    assert (values(shop, "t"), values(shop, "u")) == (BEFORE, BEFORE)
    assert [one["put"] for one in lines(shop, tmp_path, capsys, Redo(number=1, dry_run=False))] == [3, 3]
    assert (values(shop, "t"), values(shop, "u")) == (AFTER, AFTER)
