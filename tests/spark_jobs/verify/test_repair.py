"""Rows of the lake brought right by `RowRepair`, against a real MySQL, a real service and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cdc_core.errors import LakeError, SluiceError
from cdc_core.position import EntryPosition
from orchestration.commands.verb import access_of, run
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Verify
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import MARKS
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import FENCE, TableState
from spark_jobs.load import rewrite
from spark_jobs.verify import repair
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.repair import RowRepair
from spark_jobs.verify.verified import Verified
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import app_of, briefly, source_of

pytestmark = pytest.mark.integration
RIGHT = {"t": (0, 0, 0)}


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        yield shop


def repaired(shop: Shop, *tables: str) -> list[Verified]:
    """The tables, compared and repaired."""
    there = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=600, sleep=briefly)
    mending = replace(there, settle=RowRepair(shop.lake.sessions, "the run").of)
    return list(compared(mending, [(shop.database, table) for table in tables]))


def path_of(shop: Shop, table: str) -> str:
    return shop.lake.lake.path(shop.database, table)


def in_lake(shop: Shop, table: str, *statements: str) -> None:
    """Done by Spark; `{}` is the table."""
    with shop.lake.sessions.take() as spark:
        for statement in statements:
            spark.sql(statement.replace("{}", f"delta.{quote(path_of(shop, table))}")).collect()


def state_of(shop: Shop, table: str) -> TableState:
    state = shop.lake.lake.state(path_of(shop, table), app_of(shop, table))
    assert state is not None
    return state


def made(shop: Shop, rows: int = 500) -> None:
    """Table `t`, at the source and in the lake."""
    values = ", ".join(f"({n}, 'v{n}', {n}.25)" for n in range(rows))
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(12,2) NOT NULL)")
    shop.execute(f"INSERT INTO t VALUES {values}")
    assert shop.drain() == []


DAMAGE = (
    "INSERT INTO {} SELECT * FROM {} WHERE id IN (6, 7) UNION ALL SELECT id, 'wrong', 1 FROM {} WHERE id IN (3, 4, 5) "
    "UNION ALL SELECT 9001, 'never', 0",
    "DELETE FROM {} WHERE id IN (1, 2) OR id IN (3, 4, 5) AND v <> 'wrong'",
)
"""Two rows are gone, three are changed, one is added, two are doubled."""


def test_what_differs_is_brought_right(shop: Shop) -> None:
    """Rows deleted, changed, added and doubled, by one commit that says so. Properties stay, change data is kept, and
    for the stream the table is where it was: later changes of the same rows apply without a warning."""
    made(shop)
    feed = "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'mine' = 'stays')"
    in_lake(shop, "t", feed, *DAMAGE)
    before = state_of(shop, "t")
    (found,) = repaired(shop, "t")
    assert (found.repaired, found.differences, found.error) == (8, 0, "")
    assert found.comparison is not None
    assert (found.comparison.source_rows, found.comparison.lake_rows) == (500, 500)
    assert shop.differences("t") == RIGHT
    after = state_of(shop, "t")
    assert after.applied == before.applied
    assert {**before.properties, FENCE: "", MARKS: ""} == {**after.properties, FENCE: "", MARKS: ""}
    last = next(shop.lake.lake.commits(path_of(shop, "t")))
    told = json.loads(last.user_metadata)["repair"]
    assert (told["missing"], told["extra"], told["different"], told["run_id"]) == (2, 3, 3, "the run")
    changes = f"table_changes_by_path('{path_of(shop, 't')}', {after.version})"
    with shop.lake.sessions.take() as spark:
        counts = spark.sql(f"SELECT _change_type, count(*) FROM {changes} GROUP BY 1").collect()
    assert {tuple(one) for one in counts} == {("delete", 3 + 1 + 4), ("insert", 2 + 3 + 2)}
    (again,) = repaired(shop, "t")
    assert (again.repaired, state_of(shop, "t").version) == (0, after.version)
    shop.execute(
        "UPDATE t SET v = 'new' WHERE id IN (1, 3, 6, 100)", "DELETE FROM t WHERE id IN (2, 4, 7)",
        "INSERT INTO t VALUES (9001, 'now', 0)",
    )  # fmt: skip
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT
    assert shop.warnings == []


@pytest.mark.in_turn
@pytest.mark.full
def test_a_table_of_no_batch(shop: Shop) -> None:
    """A reset begins an epoch without a batch; its first one comes after the repair."""
    made(shop)
    journal, offset = shop.mysql.position()
    shop.connector.by_hand.reset({"journalName": journal, "position": offset}, client_id=1001, dry_run=False)
    in_lake(shop, "t", *DAMAGE)
    assert state_of(shop, "t").applied is None
    assert [one.repaired for one in repaired(shop, "t")] == [8]
    assert state_of(shop, "t").applied is None
    in_lake(shop, "t", *DAMAGE)
    assert [one.repaired for one in repaired(shop, "t")] == [8]
    shop.execute("UPDATE t SET v = 'new' WHERE id < 10")
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_the_command(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 without `--repair`, with the remedy; 0 with it; then there is nothing left to repair."""
    made(shop, 50)
    in_lake(shop, "t", *DAMAGE)
    url, name = shop.connector.http_url, f"{shop.database}.t"
    lake, remote = str(tmp_path / "lake"), shop.lake.sessions.remote
    at = access_of("shop", lake=lake, conf=tmp_path / "conf", spark=remote, service=url)
    capsys.readouterr()
    orders = [Verify(tables=[name], repair=repair) for repair in (False, True, True)]
    assert [run(order, at, as_json=True) for order in orders] == [1, 0, 0]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [(line["missing"], line["repaired"]) for line in lines] == [(2, 0), (0, 8), (0, 0)]
    assert f"sluice verify --repair --destination shop --table {name}" in lines[0]["remedy"]


@pytest.mark.in_turn(2)
@pytest.mark.full
@pytest.mark.parametrize("at", ["before the commit", "behind the commit"])
def test_killed_and_done_again(shop: Shop, at: str) -> None:
    """At its second repair in a row, so that the note of the first is replaced. Nothing of a batch that is applied and
    not acked comes twice."""
    made(shop)
    in_lake(shop, "t", *DAMAGE)
    assert [one.repaired for one in repaired(shop, "t")] == [8]
    in_lake(shop, "t", *DAMAGE)
    before = state_of(shop, "t").applied
    step = "_commit" if at == "before the commit" else "_check"
    with mock.patch.object(repair, step, side_effect=LakeError("killed", hint="")):
        (found,) = repaired(shop, "t")
    assert "killed" in found.error
    assert state_of(shop, "t").applied == before
    (found,) = repaired(shop, "t")
    assert (found.repaired, found.differences) == (8 if at == "before the commit" else 0, 0)
    shop.execute("UPDATE t SET v = CONCAT(v, '+') WHERE id < 10")
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT


def test_a_batch_that_comes_in_between(shop: Shop) -> None:
    """Nothing waited, so nothing was held, and a run applied a batch after the comparison: the repair's commit is
    none, and the rows are compared again."""
    made(shop)
    in_lake(shop, "t", *DAMAGE)
    commit, turns = repair._commit, iter(["DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'x' WHERE id = 2"])

    def late(*args: Any) -> Any:
        if change := next(turns, None):
            shop.execute(change)
            shop.drain()
        return commit(*args)

    with mock.patch.object(repair, "_commit", late):
        (found,) = repaired(shop, "t")
    assert (found.differences, found.error) == (0, "")
    assert shop.differences("t") == RIGHT


@pytest.mark.full
def test_a_run_that_was_killed_before(shop: Shop) -> None:
    """Its batch was applied and not acked, or not applied at all: it writes nothing over the repair."""
    made(shop)
    shop.execute(*(f"UPDATE t SET v = 'new{n}' WHERE id IN (1, 3, 200)" for n in range(3)))
    dead = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    claims = [shop.connector.get_without_ack(1, owner="dead", timeout_seconds=60) for _ in range(3)]
    first, *_, last = [claim for claim in claims if claim]
    dead.apply(first, "dead", 2, first.stopped)
    shop.connector.rollback(first, reason="it died")
    assert shop.drain() == []
    in_lake(shop, "t", *DAMAGE)
    (found,) = repaired(shop, "t")
    assert (found.repaired, found.error) == (8, "")
    with pytest.raises(LakeError, match="taken the table over"):
        dead.fence.check(path_of(shop, "t"))
    before = state_of(shop, "t").version
    for claim in (first, last):
        with suppress(SluiceError):
            dead.apply(claim, "dead", 2, claim.stopped)
    behind = [one for one in shop.lake.lake.commits(path_of(shop, "t")) if one.version > before]
    assert not [one for one in behind if one.user_metadata]  # no rows: it may have fenced the table
    assert shop.drain() == []
    assert shop.differences("t") == RIGHT


@pytest.mark.in_turn
@pytest.mark.full
def test_what_cannot_be_repaired(shop: Shop) -> None:
    """A stopped table, one without a key, and rows that the lake's own constraint refuses: each says what to do, and
    the next table is repaired."""
    made(shop)
    for name in ("stopped", "refused"):
        shop.execute(f"CREATE TABLE {name} LIKE t", f"INSERT INTO {name} SELECT * FROM t")
    shop.execute("CREATE TABLE copies (v INT)", "INSERT INTO copies VALUES (1), (2)")
    assert shop.drain() == []
    at = EntryPosition(*shop.mysql.position())
    shop.connector.stop_table(f"{shop.database}.stopped", reason="damaged", hint="Copy it.", position=at)
    for name in ("stopped", "refused", "t"):
        in_lake(shop, name, *DAMAGE)
    in_lake(shop, "copies", "DELETE FROM {} WHERE v = 1")
    in_lake(shop, "refused", "UPDATE {} SET d = 1 WHERE d > 90", "ALTER TABLE {} ADD CONSTRAINT low CHECK (d < 90)")
    found = {one.table.rpartition(".")[2]: one for one in repaired(shop, "stopped", "refused", "copies", "t")}
    assert "the table is stopped: damaged" in found["stopped"].error
    assert "Copy it." in found["stopped"].error
    assert "DROP CONSTRAINT" in found["refused"].error
    assert (found["copies"].differences, found["copies"].repaired) == (1, 0)
    assert f"sluice copy shop {shop.database}.copies" in found["copies"].remedy
    assert (found["t"].repaired, found["t"].differences) == (8, 0)
    in_lake(shop, "refused", "ALTER TABLE {} DROP CONSTRAINT low")
    (again,) = repaired(shop, "refused")
    assert (again.differences, again.error) == (0, "")


@pytest.mark.in_turn
@pytest.mark.full
def test_too_often_at_one_place(shop: Shop) -> None:
    """There are as many versions as no event can end at; then the table is reloaded, or takes a batch first."""
    made(shop, 20)
    with mock.patch.object(rewrite, "REPAIRS", 1):
        for expected in ("", "replaced 1 times since its last batch"):
            in_lake(shop, "t", "DELETE FROM {} WHERE id = 1")
            (found,) = repaired(shop, "t")
            assert expected in found.error
        shop.execute("UPDATE t SET v = 'x' WHERE id = 2")
        assert shop.drain() == []
        assert [(one.repaired, one.error) for one in repaired(shop, "t")] == [(1, "")]
