"""Tables reloaded from their change logs: they are as the source, at the same place, whatever was done to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.errors import LakeError
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.landing.modes import Mode
from spark_jobs.load import remake as remaking
from spark_jobs.load.base import base_of, copied_version
from spark_jobs.load.remake import Remaker
from tests.support.landed import Killed, LandedShop, dies, opened_landed

pytestmark = pytest.mark.integration
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2))"


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


def remaker(shop: LandedShop) -> Remaker:
    return Remaker(shop.follows, shop.lake.sessions, "run", sleep=lambda _: None)


def step(shop: LandedShop, *statements: str) -> int:
    """What the source did is landed and merged. The version of the table."""
    shop.execute(*statements)
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    return state(shop).version


def state(shop: LandedShop, epoch: int = 0) -> TableState:
    found = shop.lake.lake.state(shop.follows.path(shop.named("t")), shop.follows.app(shop.named("t"), epoch))
    assert found is not None
    return found


def damage(shop: LandedShop) -> None:
    """Somebody else changes rows, adds one and takes some."""
    there = f"delta.{quote(shop.follows.path(shop.named('t')))}"
    with shop.lake.sessions.take() as spark:
        spark.sql(f"UPDATE {there} SET v = 'wrong'").collect()
        spark.sql(f"INSERT INTO {there} VALUES (777, 'wrong', 1)").collect()
        spark.sql(f"DELETE FROM {there} WHERE id = 1").collect()


@pytest.mark.in_turn
@pytest.mark.full
def test_from_nothing_and_from_an_earlier_version(shop: LandedShop) -> None:
    """What others did is undone and reported, and the place stays: what waits in the log is merged afterwards."""
    step(shop, TABLE, "INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'a', 3)")
    earlier = step(shop, "UPDATE t SET v = 'b' WHERE id = 2")
    step(shop, "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 'd', 4)")
    right, before = shop.merged("t"), state(shop)
    shop.execute("UPDATE t SET n = n + 1", "INSERT INTO t VALUES (5, 'e', 5)")
    assert shop.land() == []

    for version in (None, earlier):
        damage(shop)
        assert shop.merged("t") != right
        made = remaker(shop).table(shop.named("t"), version)
        assert shop.merged("t") == right
        assert (made.rows, len(made.base.undone)) == (3, 3)
        after = state(shop)
        assert (after.applied, after.columns, after.version) == (before.applied, before.columns, made.delta_version)
        assert shop.now("t") == shop.source("t")

    shop.merger().whole(shop.named("t"))
    assert shop.differences("t") == {"t": (0, 0, 0)}
    step(shop, "DELETE FROM t WHERE id < 3")
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
def test_what_no_log_has_is_refused(shop: LandedShop) -> None:
    """A batch that was merged directly, a statement, a copy, and rows of the log that are gone. Nothing is written, and
    the version after it serves."""
    first = step(shop, TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    shop.run(Mode.MERGE)
    shop.execute("INSERT INTO t VALUES (2, 'b', 2)")
    assert shop.drain() == []
    direct = state(shop).version
    for version in (None, first):
        with pytest.raises(LakeError, match="merged a batch directly") as caught:
            remaker(shop).table(shop.named("t"), version)
        assert f"version {direct} or a later one" in caught.value.hint
    step(shop, "INSERT INTO t VALUES (3, 'c', 3)")
    damage(shop)
    remaker(shop).table(shop.named("t"), direct)
    assert shop.differences("t") == {"t": (0, 0, 0)}

    altered = step(shop, "ALTER TABLE t ADD COLUMN m INT DEFAULT 7", "UPDATE t SET v = 'd' WHERE id = 2")
    with pytest.raises(LakeError, match="followed a statement"):
        remaker(shop).table(shop.named("t"), direct)
    damage_version = state(shop).version
    assert damage_version == altered
    remaker(shop).table(shop.named("t"), altered)
    assert shop.differences("t") == {"t": (0, 0, 0)}
    with pytest.raises(LakeError, match="no version 9999"):
        base_of(shop.follows, shop.named("t"), 9999)
    with pytest.raises(LakeError, match="no copy or snapshot"):
        copied_version(shop.follows, shop.named("t"))


@pytest.mark.in_turn(2)
@pytest.mark.full
@pytest.mark.parametrize("behind", [False, True])
def test_killed_at_its_commit_it_is_done_again(shop: LandedShop, monkeypatch: pytest.MonkeyPatch, behind: bool) -> None:
    """Before it or after it: the table is as it was or right, at the same place, and goes on."""
    step(shop, TABLE, "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    step(shop, "UPDATE t SET n = 5")
    place = state(shop).applied
    damage(shop)
    with monkeypatch.context() as patch:
        dies(patch, remaking, "_commit", behind=behind)
        with pytest.raises(Killed):
            Remaker(shop.follows, shop.lake.sessions).table(shop.named("t"), None)
    assert state(shop).applied == place
    remaker(shop).table(shop.named("t"), None)
    assert shop.merged("t") == shop.source("t")
    step(shop, "INSERT INTO t VALUES (3, 'c', 3)")
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.full
def test_a_merge_in_between_is_not_lost(shop: LandedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is refused, and done again with what was merged."""
    step(shop, TABLE, "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    damage(shop)
    shop.execute("INSERT INTO t VALUES (3, 'c', 3)")
    assert shop.land() == []
    real, merged = remaking._commit, list[int]()

    def late(*args: Any) -> Any:
        if not merged:
            merged.append(shop.merger().whole(shop.named("t")).parts)
        return real(*args)

    monkeypatch.setattr(remaking, "_commit", late)
    remaker(shop).table(shop.named("t"), None)
    assert merged == [1]
    assert shop.merged("t") == shop.source("t")
    assert shop.differences("t") == {"t": (0, 0, 0)}


def test_rows_by_other_rules_are_not_brought_back(shop: LandedShop) -> None:
    """An earlier version of the table has values that a rule hides now."""
    step(shop, TABLE, "INSERT INTO t VALUES (1, 'secret', 1)")
    shop.connector.set_rules(Rules({"*.t": TableRule(masks=(("v", Mask(MaskKind.TRUNCATE, 1)),))}))
    shop.execute("INSERT INTO t VALUES (2, 'secret', 2)")
    shop.land()

    for version in (None, state(shop).version):
        with pytest.raises(LakeError, match="cannot be rebuilt"):
            remaker(shop).table(shop.named("t"), version)
