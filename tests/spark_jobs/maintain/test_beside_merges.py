"""Tables that follow their logs are maintained while runs merge: nothing is lost, and nobody fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.maintain.shape import Shape, shape
from spark_jobs.maintain.slices import AS_SHIPPED, RewriteLimits
from spark_jobs.maintain.upkeep import Upkeep
from tests.support.landed import LandedShop, opened_landed

pytestmark = [pytest.mark.integration, pytest.mark.full]
MERGES = 4


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        yield shop


def pieces(shop: LandedShop) -> str:
    """Table `t` with a log, in twenty files."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    shop.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}')" for n in range(200)))
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    path = shop.follows.path(shop.named("t"))
    with shop.lake.sessions.take() as spark:
        rows = spark.read.format("delta").load(path).repartition(20)
        rows.write.format("delta").mode("overwrite").save(path)
    return path


@pytest.mark.in_turn
def test_no_claim_is_held_for_a_table_that_follows_its_log(shop: LandedShop) -> None:
    """Its small files become one, while nothing waits to be claimed and without a pause."""
    path = pieces(shop)
    found = Upkeep(shop.connector, shop.lake.lake, shop.lake.sessions, quiet_seconds=1e9).table(shop.database, "t")
    assert (found.left, found.compacted, found.idle, shape(shop.lake.lake, path).files) == ("", True, False, 1)
    assert shop.differences("t") == {"t": (0, 0, 0)}


@pytest.mark.in_turn
def test_a_history_is_maintained_too(shop: LandedShop) -> None:
    """Its small files become one, its versions stay, and it goes on."""
    pieces(shop)
    shop.keep("t")
    path = shop.lake.lake.history_path(shop.database, "t")
    with shop.lake.sessions.take() as spark:
        rows = spark.read.format("delta").load(path).repartition(20)
        rows.write.format("delta").mode("overwrite").save(path)
    upkeep, before = Upkeep(shop.connector, shop.lake.lake, shop.lake.sessions, quiet_seconds=1e9), shop.history("t")
    assert upkeep.has_history(shop.named("t"))
    found = upkeep.history(shop.named("t"))
    assert (found.left, found.compacted, found.idle, shape(shop.lake.lake, path).files) == ("", True, False, 1)
    assert shop.history("t") == before
    shop.execute("UPDATE t SET v = 'new' WHERE id = 1")
    assert shop.land() == []
    shop.keep("t")
    assert [row["v"] for row in shop.history("t") if row["id"] == 1] == ["v1", "new"]
    assert shop.current("t") == shop.source("t")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "limits", [AS_SHIPPED, RewriteLimits(ordered=1, least=1, small=1, file=2_000)], ids=["small", "large"]
)
def test_upkeep_and_merges_side_by_side(
    shop: LandedShop, monkeypatch: pytest.MonkeyPatch, limits: RewriteLimits
) -> None:
    """OPTIMIZE, or what keeps the order of the key, and VACUUM again and again, while each part of the log is merged:
    one or the other goes first, and both get through."""
    pieces(shop)
    monkeypatch.setattr(Shape, "piled_up", True)
    failed, ended = list[Exception](), threading.Event()

    def keep() -> None:
        upkeep = Upkeep(shop.connector, shop.lake.lake, shop.lake.sessions, quiet_seconds=0, limits=limits)
        try:
            while not ended.is_set():
                assert upkeep.table(shop.database, "t").left == ""
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        for number in range(MERGES):
            shop.execute(f"UPDATE t SET v = 'm{number}' WHERE id % {MERGES} = {number}")
            assert shop.land() == []
            shop.merger().whole(shop.named("t"))
    finally:
        ended.set()
        thread.join()
    assert failed == []
    assert shop.differences("t") == {"t": (0, 0, 0)}
