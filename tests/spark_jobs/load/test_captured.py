"""What a load refuses before it reads: tables that nothing keeps up to date, and a place at which no number is left."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from cdc_core.errors import ConfigError, LakeError
from orchestration.first_rows import waiting
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.record import Mark
from spark_jobs.load.result import NoSuchTable
from tests.support.copying import loader_of
from tests.support.servers import MySqlFactory
from tests.support.shop import opened_shop
from tests.support.waiting import until

pytestmark = pytest.mark.integration
NOWHERE = "sc://127.0.0.1:1"


def test_a_table_that_is_not_captured(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Its changes would be missed in silence, also when the filter takes it in later. One that the source has not is
    told from it."""
    with mysql8.database("away") as away, opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=away)
        shop.execute("CREATE TABLE here (id INT PRIMARY KEY)")
        loader = loader_of(shop, tmp_path / "conf")
        (loading,) = loader.tables([f"{away}.t"])
        for load in (loading.outcome, partial(loader.table, away, "t"), partial(loader.copy, away, "t")):
            with pytest.raises(ConfigError, match=f"{away}.t is not captured") as refused:
                load()
            assert f"Captured: {shop.database}.here" in refused.value.hint
        assert isinstance(loader.table(away, "missing"), NoSuchTable)
        assert shop.connector.client_status().snapshots == ()


def test_a_snapshot_that_a_job_left_open_ends(mysql8: MySqlServer, tmp_path: Path) -> None:
    """Of a table that is gone, or captured no more. Otherwise the sensor would start a job for it again and again."""
    with mysql8.database("away") as away, opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=away)
        for name in (f"{away}.t", f"{shop.database}.gone"):
            shop.connector.snapshots.open(name, owner="job-1", first=True, lease_seconds=0.1)
        until(lambda: all(one.lease_deadline < time.time() for one in shop.connector.client_status().snapshots))
        assert waiting(shop.connector.client_status(), time.time(), complete=False)
        loader = loader_of(shop, tmp_path / "conf")
        with pytest.raises(ConfigError, match="is not captured"):
            loader.table(away, "t")
        assert isinstance(loader.table(shop.database, "gone"), NoSuchTable)
        assert waiting(shop.connector.client_status(), time.time(), complete=False) == []


def test_a_name_in_other_letters(new_mysql: MySqlFactory, tmp_path: Path) -> None:
    """Where the server takes both for one, claims have the name in lower case: a snapshot of the other one would get no
    change that comes meanwhile."""
    server = new_mysql("5.7.22", lower_case_table_names="1")
    with opened_shop(server, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        loader = loader_of(shop, tmp_path / "conf")
        (loading,) = loader.tables([f"{shop.database}.T"])
        for load in (loading.outcome, partial(loader.table, shop.database, "T")):
            with pytest.raises(ConfigError, match=rf"{shop.database}\.T is not captured"):
                load()


@pytest.mark.in_turn
def test_a_place_of_many_copies(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the source writes nothing, a table has some numbers for commits at that place. The error says so, and the
    next event ends it."""
    monkeypatch.setattr(Mark, "next", partial(Mark.next, room=2))
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        assert shop.drain() == []
        loader = loader_of(shop, tmp_path / "conf")
        for _ in range(2):
            loader.copy(shop.database, "t")
        with pytest.raises(LakeError, match="while the source wrote nothing") as refused:
            loader.copy(shop.database, "t")
        assert "when the source has written anything" in refused.value.hint
        shop.execute("FLUSH BINARY LOGS")
        shop.read()
        loader.copy(shop.database, "t")
        shop.execute("INSERT INTO t VALUES (2)")
        loader.copy(shop.database, "t")
        assert shop.drain() == []
        assert shop.differences("t") == {"t": (0, 0, 0)}
